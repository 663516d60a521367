/* pipeline_plan.c - finds a plan for every rank of a pipeline. Each plan is within the budget and is written to its own file.
 *
 * The stash of a rank holds the other micro-batches in flight. Its bytes count in the budget, and they are a multiple of the
 * bytes that the rank's plan keeps. So the plan depends on the stash, and the stash on the plan. A plan is searched with a
 * guess of the stash's bytes. If the plan found needs a larger stash, the next guess is larger. If it needs a smaller stash,
 * the next guess may be smaller. The result is the plan found with the smallest sufficient guess. Its stash is then set to
 * exactly the bytes that it needs.
 *
 * Each chunk has its own stash. The guessed stashes of the chunks have the same proportions as the stashes in keep-all. So a
 * guess is a single number: the bytes of the largest stash. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/outputs.h"
#include "cli/reports/pipeline.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/report.h"
#include "executor/workload/workload_pipeline.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/budget.h"
#include "memplan/check.h"
#include "memplan/smallest.h"

/* most guesses per rank; guessing also ends when two guesses differ by less than budget / FINENESS */
enum { GUESSES = 8, FINENESS = 100 };

typedef struct rank_search {
    const options *asked;
    mp_workload *workload;
    int64_t budget_bytes;
    unsigned stages_off, solvers_off;
    int n_chunks;
    int64_t *keep_all; /* per chunk: bytes of its stash in keep-all */
    int64_t *guessed;  /* per chunk: bytes of its stash in the present guess */
    int64_t *found;    /* per chunk: bytes of its stash with the plan found last */
    int64_t *held;     /* per chunk: bytes of its stash with the best plan */
    mp_plan *best;     /* the fastest plan that fits with exactly its own stash; NULL: none */
    int64_t most_held; /* bytes of the largest stash with the best plan */
    mp_pool *pool;     /* owns keep_all, guessed, found and held */
} rank_search;

static void rank_search_clear(rank_search *x)
{
    mp_plan_free(x->best);
    mp_pool_free(x->pool);
}

static int64_t most_of(const rank_search *x, const int64_t *bytes)
{
    int64_t most = 0;
    for (int c = 0; c < x->n_chunks; c++)
        if (bytes[c] > most) most = bytes[c];
    return most;
}

/* Returns number * part / whole, with a fraction of at most 1, rounded up. */
static int64_t share_of(int64_t number, int64_t part, int64_t whole)
{
    return part >= whole ? number : (int64_t)ceil((double)number * ((double)part / (double)whole));
}

/* Returns the smallest guess (bytes of the largest stash) with which every chunk's stash is at least as large as the plan found
 * last requires. If some chunk requires more than in keep-all, returns one byte more than keep-all's largest stash. */
static int64_t guess_for(const rank_search *x)
{
    const int64_t most = most_of(x, x->keep_all);
    int64_t guess = 0;
    for (int c = 0; c < x->n_chunks; c++) {
        const int64_t enough = x->found[c] > x->keep_all[c] ? most + 1 : share_of(most, x->found[c], x->keep_all[c]);
        if (x->found[c] && enough > guess) guess = enough;
    }
    return guess;
}

/* Builds the plan of these steps with exactly the stash that they need, x->found. */
static mp_status settle(rank_search *x, const mp_plan *plan, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *made = NULL;
    MP_CHECK(mp_rank_held_bytes(&x->workload->rank, plan->steps, plan->n_steps, x->found, err));
    MP_CHECK(mp_workload_hold(x->workload, x->found, err));
    MP_CHECK(mp_plan_new(x->workload->graph, plan->solver, plan->steps, plan->n_steps, &made, err));
    made->seed = plan->seed;
    if (x->asked->search.offsets) {
        const mp_arena_options options = {.capacity_bytes = x->budget_bytes - made->static_bytes,
                                          .tier_bytes = x->workload->tier_bytes};
        MP_CHECK(mp_arena_layout_within(x->workload->graph, made, &options, err));
    }
    *out = made;
    made = NULL;
    return MP_OK;
}

/* Stores a plan if it fits with its own stash, and is faster than the best plan, or equally fast with a smaller stash. */
static mp_status remember(rank_search *x, const mp_plan *plan, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *made = NULL;
    MP_CHECK(settle(x, plan, &made, err));
    const int64_t most = most_of(x, x->found);
    const bool is_worse = x->best && (made->ticks > x->best->ticks || (made->ticks == x->best->ticks && most >= x->most_held));
    if (mp_plan_need(made) > x->budget_bytes || is_worse) return MP_OK;
    mp_plan_free(x->best);
    x->best = made;
    x->most_held = most;
    memcpy(x->held, x->found, (size_t)x->n_chunks * sizeof *x->found);
    made = NULL;
    return MP_OK;
}

/* Searches for a plan with the guessed stash. *needed is the smallest guess that is sufficient for the plan found; -1: no plan
 * was found. */
static mp_status search_with(rank_search *x, int64_t guess, int64_t *needed, mp_error *err)
{
    const int64_t most = most_of(x, x->keep_all);
    for (int c = 0; c < x->n_chunks; c++) x->guessed[c] = share_of(x->keep_all[c], guess, most);
    MP_CHECK(mp_workload_hold(x->workload, x->guessed, err));
    MP_CLEARED_BY(outcome_free) outcome out = {.workload = x->workload, .asked = x->asked};
    MP_CHECK(outcome_start(&out, err));
    *needed = -1;
    if (out.floor_bytes > x->budget_bytes) return MP_OK;
    mp_request request = outcome_request(&out);
    request.stages_off = x->stages_off;
    request.solvers_off = x->solvers_off;
    out.budget_bytes = x->budget_bytes;
    const mp_status st = outcome_search(&out, &request, err);
    if (st == MP_LIMIT) return MP_OK;
    MP_CHECK(st);
    const mp_plan *plan = out.answer.plan;
    if (!plan) return MP_OK;
    MP_CHECK(mp_rank_held_bytes(&x->workload->rank, plan->steps, plan->n_steps, x->found, err));
    int64_t lacks = 0;
    for (int c = 0; c < x->n_chunks; c++)
        if (x->found[c] - x->guessed[c] > lacks) lacks = x->found[c] - x->guessed[c];
    *needed = guess_for(x);
    return !lacks || mp_plan_need(plan) + lacks <= x->budget_bytes ? remember(x, plan, err) : MP_OK;
}

/* Returns the first guess: the largest stash with which the rank still fits if everything is kept. */
static int64_t first_guess(const rank_search *x, int64_t keep_all_held, int64_t in_flight, int64_t keep_all_peak)
{
    const int64_t over = keep_all_peak - x->budget_bytes;
    const int64_t less = over / in_flight * (in_flight - 1);
    return less < keep_all_held ? keep_all_held - less : keep_all_held / 2;
}

/* Finds the smallest plan of a rank, and sets the stash to the bytes that it needs. */
static mp_status find_smallest(rank_search *x, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *smallest = NULL;
    MP_CLEARED_BY(outcome_free) outcome all = {.workload = x->workload, .asked = x->asked};
    memset(x->guessed, 0, (size_t)x->n_chunks * sizeof *x->guessed);
    MP_CHECK(mp_workload_hold(x->workload, x->guessed, err));
    MP_CHECK(outcome_start(&all, err));
    mp_request request = outcome_request(&all);
    request.solvers_off = x->solvers_off;
    request.time_limit = progress_time_left(&x->asked->search);
    MP_CHECK(mp_smallest_plan(&request, x->asked->search.offsets, &smallest, err));
    return settle(x, smallest, out, err);
}

/* Takes the smallest plan if it fits with its stash. So every budget from pipeline_smallest_of_rank on has a plan. */
static mp_status try_smallest(rank_search *x, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_CHECK(find_smallest(x, &plan, err));
    return remember(x, plan, err);
}

/* Searches with guesses between `low`, which is too small, and `high`, which is sufficient or too large. If a plan keeps less
 * than guessed, the next guess is the stash of that plan. Otherwise it is half-way between the limits. If no guess yields a
 * plan, tries the stash of keep-all, which suffices for every plan. */
static mp_status search(rank_search *x, const pipeline_rank *rank, mp_error *err)
{
    int64_t low = 0, high = rank->held_bytes, needed;
    const bool fits = rank->keep_all_peak_bytes <= x->budget_bytes;
    int64_t guess = fits || !high ? high : first_guess(x, high, rank->in_flight, rank->keep_all_peak_bytes);
    for (int k = 0; k < GUESSES && !interrupt_asked(); k++) {
        MP_CHECK(search_with(x, guess, &needed, err));
        if (!high || (fits && x->best)) break; /* no stash is needed, or nothing has to be recomputed */
        if (needed > guess)
            low = guess;
        else
            high = guess;
        if (needed >= 0 && needed <= guess && guess - needed <= x->budget_bytes / FINENESS) break;
        if (high - low <= x->budget_bytes / FINENESS) break;
        guess = needed > low && needed < high ? needed : low + (high - low) / 2;
    }
    if (!x->best && !interrupt_asked()) MP_CHECK(search_with(x, rank->held_bytes, &needed, err));
    return x->best || interrupt_asked() ? MP_OK : try_smallest(x, err);
}

/* Moves the best plan to *out, and sets the stash to exactly the bytes that it needs. */
static mp_status take_best(rank_search *x, mp_plan **out, mp_error *err)
{
    MP_CHECK(mp_workload_hold(x->workload, x->held, err));
    x->best->budget_bytes = x->budget_bytes;
    MP_CHECK(mp_problem_floor(x->workload->problem, &x->best->floor_bytes, NULL, err));
    MP_CHECK(mp_plan_check(x->workload->graph, x->best, err));
    MP_CHECK(mp_workload_check_held(x->workload, x->best->steps, x->best->n_steps, err));
    *out = x->best;
    x->best = NULL;
    return MP_OK;
}

/* Returns the floor of a rank in *floor_bytes, without a stash. */
static mp_status find_floor(rank_search *x, int64_t *floor_bytes, mp_error *err)
{
    memset(x->guessed, 0, (size_t)x->n_chunks * sizeof *x->guessed);
    MP_CHECK(mp_workload_hold(x->workload, x->guessed, err));
    return mp_problem_floor(x->workload->problem, floor_bytes, NULL, err);
}

static mp_status start(rank_search *x, const rank_plan_request *r, mp_workload *s, mp_error *err)
{
    *x = (rank_search){.asked = r->asked,
                       .workload = s,
                       .budget_bytes = MP_NO_LIMIT,
                       .stages_off = r->stages_off,
                       .solvers_off = r->solvers_off,
                       .n_chunks = s->rank.shape.n_chunks,
                       .pool = mp_pool_new()};
    int64_t **const amounts[] = {&x->keep_all, &x->guessed, &x->found, &x->held};
    for (size_t k = 0; k < sizeof amounts / sizeof *amounts; k++)
        *amounts[k] = mp_pool_alloc(x->pool, (size_t)x->n_chunks, sizeof **amounts[k]);
    if (mp_pool_failed(x->pool)) return MP_NO_MEMORY(err);
    memcpy(x->keep_all, s->rank.held_bytes, (size_t)x->n_chunks * sizeof *x->keep_all);
    return MP_OK;
}

mp_status pipeline_floor_of_rank(const rank_plan_request *r, mp_workload *s, int64_t *bytes, mp_error *err)
{
    MP_CLEARED_BY(rank_search_clear) rank_search x = {0};
    MP_CHECK(start(&x, r, s, err));
    return find_floor(&x, bytes, err);
}

mp_status pipeline_smallest_of_rank(const rank_plan_request *r, mp_workload *s, int64_t *bytes, mp_error *err)
{
    MP_CLEARED_BY(rank_search_clear) rank_search x = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_CHECK(start(&x, r, s, err));
    MP_CHECK(find_smallest(&x, &plan, err));
    *bytes = mp_plan_need(plan);
    return MP_OK;
}

mp_status pipeline_plan_rank(rank_plan_request *r, mp_workload *s, mp_plan **out, mp_error *err)
{
    MP_CLEARED_BY(rank_search_clear) rank_search x = {0};
    MP_CLEARED_BY(outcome_free) outcome all = {.workload = s, .asked = r->asked};
    const mp_step *steps;
    const mp_timeline *keep_all;
    *out = NULL;
    MP_CHECK(mp_problem_keep_all(s->problem, &steps, &keep_all, err));
    MP_CHECK(start(&x, r, s, err));
    const pipeline_rank rank = {.held_bytes = mp_rank_most_held(&s->rank),
                                .in_flight = mp_schedule_in_flight(&s->rank.shape, s->rank.rank),
                                .keep_all_peak_bytes = keep_all->peak_bytes};
    MP_CHECK(outcome_start(&all, err));
    const mp_request request = outcome_request(&all);
    MP_CHECK(outcome_find_budget(&all, r->budget, &request, err));
    r->budget_bytes = x.budget_bytes = all.budget_bytes;
    /* keep-all fits, so it is the first plan; a plan with less waiting may be faster and keep even more bytes */
    if (rank.keep_all_peak_bytes <= x.budget_bytes) {
        MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
        MP_CHECK(mp_plan_new(s->graph, "none", steps, keep_all->n_steps, &plan, err));
        MP_CHECK(remember(&x, plan, err));
    }
    MP_CHECK(search(&x, &rank, err));
    return x.best ? take_best(&x, out, err) : find_floor(&x, &r->floor_bytes, err);
}

static mp_status plan_rank(pipeline *p, int rank, rank_plan_request *r, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    rank_options space;
    options one = pipeline_rank_options(p, rank, &space);
    pipeline_rank *row = &p->ranks[rank];
    if (r->budget->kind == MP_BUDGET_BYTES) one.model.rank_bytes = r->budget->bytes;
    MP_CHECK(load_workload(one.operands[0], &one, &s, err));
    MP_CHECK(pipeline_take(p, rank, &s, NULL, 0, err));
    r->asked = &one;
    MP_CHECK(pipeline_plan_rank(r, &s, &plan, err));
    row->budget_bytes = r->budget_bytes;
    row->floor_bytes = r->floor_bytes;
    if (!plan) return MP_OK;
    row->has_plan = true;
    row->ticks = plan->ticks;
    row->peak_bytes = mp_plan_need(plan);
    MP_CHECK(pipeline_take(p, rank, &s, plan->steps, plan->n_steps, err));
    if (!p->asked->output.out) return MP_OK;
    snprintf(row->file, sizeof row->file, "%s", output_part(p->asked->output.out, "rank", rank));
    return mp_plan_write(plan, s.graph, row->file, err);
}

static void print_ranks(const pipeline *p)
{
    screen_row("  %-4s %-9s %6s %11s %11s %11s %9s  %s", "rank", "blocks", "flight", "keep all", "this plan", "held", "extra",
               p->asked->output.out ? "file" : "");
    for (int r = 0; r < p->shape.n_ranks; r++) {
        const pipeline_rank *row = &p->ranks[r];
        int blocks = 0;
        for (int q = r; q < p->shape.n_ranks * p->shape.n_chunks; q += p->shape.n_ranks)
            blocks += p->begins[q + 1] - p->begins[q];
        screen_row("  %-4d %-9d %6lld %11s %11s %11s %9s  %s", r, blocks, (long long)row->in_flight,
                   mp_bytes_text(row->keep_all_peak_bytes), row->has_plan ? mp_bytes_text(row->peak_bytes) : "none",
                   mp_bytes_text(row->held_bytes),
                   row->has_plan ? extra_text((double)row->ticks, (double)row->keep_all_ticks) : "", row->file);
    }
    screen_text(2, "flight: micro-batches between forward and backward; held: bytes kept by all of them but one; extra: time "
                   "of one micro-batch.");
}

/* Returns bytes as a text that --budget reads without rounding. mp_text allocates it. */
static const char *exact_text(int64_t bytes)
{
    const int64_t kib = 1024, mib = kib * kib;
    if (bytes % mib == 0) return mp_text("%lldMiB", (long long)(bytes / mib));
    return bytes % kib ? mp_text("%lldB", (long long)bytes) : mp_text("%lldKiB", (long long)(bytes / kib));
}

static void print_verdict(const pipeline *p, int without)
{
    const char *budget = p->asked->search.budget, *program = *p->room.name ? p->program : "";
    if (p->is_smallest) budget = mp_text("%s (%s)", exact_text(p->ranks[0].budget_bytes), budget);
    if (without >= 0)
        screen_verdict(p->asked->talk.color, SCREEN_OPEN, "%s, %s%s: no plan was found for rank %d within %s%s.", p->title,
                       p->mesh, program, without, budget, interrupt_asked() ? " until it was stopped" : "");
    else
        screen_verdict(p->asked->talk.color, SCREEN_GOOD, "%s, %s%s: fits %s on every rank, %s time of a step.", p->title,
                       p->mesh, program, budget, extra_text(p->played->seconds, p->keep_all_played->seconds));
}

/* For each rank without a plan, prints its floor. Returns true if a floor proves that no plan exists. */
static bool print_floors(const pipeline *p, bool is_quiet)
{
    bool is_proved = false;
    for (int r = 0; r < p->shape.n_ranks; r++) {
        const pipeline_rank *row = &p->ranks[r];
        if (row->has_plan) continue;
        const bool is_over = row->floor_bytes > row->budget_bytes;
        is_proved |= is_over;
        if (!is_quiet)
            screen_text(2, "Rank %d needs at least %s, however it recomputes%s.", r, mp_bytes_text(row->floor_bytes),
                        is_over ? "" : "; with that floor a plan may exist, but none was found");
    }
    if (!is_quiet) screen_text(2, "--budget min finds the smallest budget with which every rank has a plan.");
    return is_proved;
}

/* Refuses options that are only meaningful for a single graph. */
static int refuse(const options *o)
{
    const char *what = o->search.checkpoints                     ? "--checkpoints"
                       : o->search.second_stream                 ? "--second-stream"
                       : o->search.explain_bound                 ? "--explain-bound"
                       : strcmp(o->search.granularity, "tensor") ? "--granularity module"
                                                                 : NULL;
    if (what) return usage_error("%s applies to one graph; choose it with --rank", what);
    if (o->output.out && !strcmp(o->output.out, "-"))
        return usage_error("-o - cannot hold the plans of several ranks; -o plan.json writes plan.rank0.json and so on");
    return EXIT_DONE;
}

/* Replaces a budget relative to the smallest plan, such as min or min+50%, by its bytes. */
static mp_status settle_budget(pipeline *p, rank_plan_request *r, mp_budget *settled, mp_error *err)
{
    const mp_budget *asked = r->budget;
    if (asked->kind != MP_BUDGET_ABOVE_MIN) return MP_OK;
    MP_CHECK(pipeline_take_ranks(p, err));
    const int64_t peak = pipeline_peak(p);
    MP_CHECK(pipeline_smallest_budget(p, r, &p->smallest_bytes, err));
    MP_ENSURE(p->smallest_bytes >= 0, err, MP_LIMIT, "the search for the smallest budget of all ranks was stopped");
    *settled = (mp_budget){.kind = MP_BUDGET_BYTES, .bytes = mp_budget_resolve(asked, peak, p->smallest_bytes)};
    r->budget = settled;
    p->is_smallest = true;
    return MP_OK;
}

int pipeline_plan(const options *o, const mp_budget *b, unsigned stages_off, unsigned solvers_off)
{
    mp_error err = {0};
    MP_CLEARED_BY(pipeline_free) pipeline p = {0};
    int without = -1, rc = refuse(o);
    rank_plan_request one = {.budget = b, .stages_off = stages_off, .solvers_off = solvers_off};
    mp_budget settled;
    if (rc) return rc;
    if (pipeline_start(o, &p, &err) != MP_OK) return input_failed(&err);
    if (settle_budget(&p, &one, &settled, &err) != MP_OK) return input_failed(&err);
    for (int r = 0; r < p.shape.n_ranks; r++) {
        if (plan_rank(&p, r, &one, &err) != MP_OK) return input_failed(&err);
        if (!p.ranks[r].has_plan && without < 0) without = r;
    }
    if (pipeline_play(&p, &err) != MP_OK) return output_failed(&err);
    if (interrupt_asked()) complain("the search was cut short; this is the best it had found");
    if (o->talk.json) {
        rc = print_json("pipeline", pipeline_json(&p));
        return rc || without < 0 ? rc : no_plan_status(print_floors(&p, true));
    }
    print_verdict(&p, without);
    if (!o->talk.quiet) {
        putchar('\n');
        print_ranks(&p);
        if (without < 0)
            pipeline_print_step(&p);
        else
            print_floors(&p, false);
        putchar('\n');
        print_verdict(&p, without);
    }
    return without < 0 ? EXIT_DONE : no_plan_status(print_floors(&p, true));
}
