/* pipeline_plan.c - finds a plan for every rank of a pipeline within the budget, writes each to its own file, and prints the
 * answer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/load.h"
#include "cli/options/outputs.h"
#include "cli/reports/needs_report.h"
#include "cli/reports/pipeline.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/report.h"
#include "estimator/base/clock.h"
#include "formats/json/plan_json.h"
#include "memplan/budget.h"
#include "memplan/ranks/pipeline_smallest.h"
#include "memplan/ranks/rank_plan.h"
#include "memplan/workloads/card_plan.h"

#define REFUSAL_SECONDS 20.0 /* time for the search of a sufficient budget after a rank has no plan */

mp_status pipeline_plan_rank(rank_plan_request *r, mp_workload *s, mp_plan **out, mp_error *err)
{
    MP_CLEARED_BY(outcome_free) outcome all = {.workload = s, .asked = r->asked};
    MP_CLEARED_BY(mp_card_plan_free) mp_card_plan found = {0};
    progress shown;
    *out = NULL;
    MP_CHECK(outcome_start(&all, err));
    mp_request request = outcome_request(&all);
    if (r->budgets)
        all.budget_bytes = r->budgets[s->rank.rank];
    else
        MP_CHECK(outcome_find_budget(&all, r->budget, &request, err));
    request.stages_off = r->stages_off;
    request.solvers_off = r->solvers_off;
    request.progress = progress_show;
    request.progress_data = &shown;
    request.budget_bytes = all.budget_bytes;
    request.time_limit = progress_time_left(&r->asked->search);
    progress_start(&shown, r->asked, all.floor_bytes, all.budget_bytes);
    const mp_card_search how = {.options = &r->asked->model,
                                .with_offsets = r->asked->search.offsets,
                                .finds_stash = true,
                                .use = all.fills_device && all.room.visible_bytes ? MP_CARD_FILLED : MP_CARD_MEASURED};
    const mp_status st = mp_workload_solve(s, &how, &request, &found, err);
    progress_end(&shown);
    MP_CHECK(st);
    r->budget_bytes = found.budget_bytes;
    r->needs = found.needs;
    *out = found.answer.plan;
    found.answer.plan = NULL;
    return *out ? MP_OK : mp_workload_floor(s, &r->floor_bytes, err);
}

/* The progress of a search that ends at a certain time. */
typedef struct limited_progress {
    progress shown;
    double end; /* time of mp_clock_now() at which the search ends */
    bool is_over;
} limited_progress;

static bool show_until(const mp_progress *now, void *data)
{
    limited_progress *limited = data;
    limited->is_over = mp_clock_now() > limited->end;
    return progress_show(now, &limited->shown) && !limited->is_over;
}

/* Finds the smallest budget with which every rank has a plan. After `seconds`, p->smallest_bytes is the smallest budget known
 * to suffice, and p->is_only_enough is set. */
static mp_status find_smallest_budget(pipeline *p, const rank_plan_request *r, double seconds, mp_error *err)
{
    const options *o = p->asked;
    limited_progress limited = {.end = mp_clock_now() + seconds};
    mp_request request = search_request(o);
    request.solvers_off = r->solvers_off;
    request.time_limit = progress_time_left(&o->search);
    request.progress = show_until;
    request.progress_data = &limited;
    progress_start(&limited.shown, o, INT64_MAX, 0);
    const mp_status st = mp_pipeline_smallest_budget(o->operands[0], &o->model, &request, o->search.offsets,
                                                     mp_pipeline_report_peak(&p->report), &p->smallest_bytes, err);
    progress_end(&limited.shown);
    p->is_only_enough = limited.is_over || interrupt_asked();
    return st;
}

static mp_status plan_rank(pipeline *p, int rank, rank_plan_request *r, mp_error *err)
{
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    rank_options space;
    options one = pipeline_rank_options(p, rank, &space);
    pipeline_search *search = &p->searches[rank];
    if (r->budget->kind == MP_BUDGET_BYTES) one.model.rank_bytes = r->budget->bytes;
    MP_CHECK(load_workload(one.operands[0], &one, &s, err));
    MP_CHECK(pipeline_take(p, &s, err));
    r->asked = &one;
    MP_CHECK(pipeline_plan_rank(r, &s, &plan, err));
    search->budget_bytes = r->budget_bytes;
    search->floor_bytes = r->floor_bytes;
    if (!plan) return MP_OK;
    if (option_given(p->asked, OPT_DEVICE) || mp_budget_is_of_device(r->budget)) pipeline_take_needs(p, &r->needs);
    MP_CHECK(mp_pipeline_report_take(&p->report, &s, plan, err));
    if (!p->asked->output.out) return MP_OK;
    snprintf(search->file, sizeof search->file, "%s", output_part(p->asked->output.out, "rank", rank));
    return mp_plan_write(plan, s.graph, search->file, err);
}

static void print_ranks(const pipeline *p)
{
    screen_row("  %-4s %-9s %6s %11s %11s %11s %9s  %s", "rank", "blocks", "flight", "keep all", "this plan", "held", "extra",
               p->asked->output.out ? "file" : "");
    const mp_pipeline_report *report = &p->report;
    for (int r = 0; r < report->shape.n_ranks; r++) {
        const mp_pipeline_rank *row = &report->ranks[r];
        int blocks = 0;
        for (int q = r; q < report->shape.n_ranks * report->shape.n_chunks; q += report->shape.n_ranks)
            blocks += report->begins[q + 1] - report->begins[q];
        screen_row("  %-4d %-9d %6lld %11s %11s %11s %9s  %s", r, blocks, (long long)row->in_flight,
                   mp_bytes_text(row->keep_all_peak_bytes), row->has_plan ? mp_bytes_text(row->peak_bytes) : "none",
                   mp_bytes_text(row->held_bytes),
                   row->has_plan ? mp_extra_text((double)row->ticks, (double)row->keep_all_ticks) : "", p->searches[r].file);
    }
    if (*p->row_chunks) screen_row("  chunks of rows on all ranks: %s", p->row_chunks);
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
    if (p->is_smallest) budget = mp_text("%s (%s)", exact_text(p->searches[0].budget_bytes), budget);
    if (without >= 0)
        screen_verdict(p->asked->talk.color, SCREEN_OPEN, "%s, %s%s: no plan was found for rank %d within %s%s.",
                       p->report.title, p->report.mesh, program, without, budget,
                       interrupt_asked() ? " until it was stopped" : "");
    else
        screen_verdict(p->asked->talk.color, SCREEN_GOOD, "%s, %s%s: fits %s on every rank, %s time of a step.",
                       p->report.title, p->report.mesh, program, budget,
                       mp_extra_text(p->report.played->seconds, p->report.keep_all_played->seconds));
}

/* True if the ranks' static memory alone exceeds the budget, for all possible stages. */
static bool is_above_all_stages(const pipeline *p)
{
    int64_t left = 0;
    for (int r = 0; r < p->report.shape.n_ranks; r++) {
        const mp_pipeline_rank *rank = &p->report.ranks[r];
        left += p->searches[r].budget_bytes - rank->parameter_bytes - rank->gradient_bytes - rank->state_bytes;
    }
    return left < 0;
}

/* For each rank without a plan, prints its floor, then the smallest budget of all ranks. Returns true if it is proved that no
 * plan exists. For a budget in bytes, memplan chooses the stages itself, and other stages may have lower floors. So a floor
 * above the budget is a proof only for other kinds of budgets, or if --stages fixes the stages. */
static bool print_floors(const pipeline *p, const mp_budget *budget, bool is_quiet)
{
    const bool is_fixed = p->asked->model.stages != NULL, is_of_stages = is_fixed || budget->kind != MP_BUDGET_BYTES;
    const char *chosen = is_fixed ? "" : ", with the stages that memplan chooses for it";
    bool is_proved = is_above_all_stages(p);
    for (int r = 0; r < p->report.shape.n_ranks; r++) {
        const pipeline_search *row = &p->searches[r];
        if (p->report.ranks[r].has_plan) continue;
        const bool is_over = row->floor_bytes > row->budget_bytes;
        is_proved |= is_over && is_of_stages;
        if (!is_quiet)
            screen_text(2, "With these blocks rank %d needs at least %s, however it recomputes%s.", r,
                        mp_bytes_text(row->floor_bytes),
                        is_over ? "" : "; with that floor a plan may exist, but none was found");
    }
    if (is_quiet) return is_proved;
    /* with a time limit, the search tries no smaller budgets at its end (mp_pipeline_smallest_budget) */
    const bool is_smallest = !p->is_only_enough && p->asked->search.time_limit <= 0;
    if (p->smallest_bytes >= 0 && !is_smallest)
        screen_text(2, "With %s every rank has a plan%s: --budget %s. --budget min finds the smallest such budget.",
                    mp_bytes_text(p->smallest_bytes), chosen, exact_text(p->smallest_bytes));
    else if (p->smallest_bytes >= 0)
        screen_text(2, "The smallest budget with which every rank has a plan is %s%s: --budget %s.",
                    mp_bytes_text(p->smallest_bytes), chosen, exact_text(p->smallest_bytes));
    else
        screen_text(2, "--budget min finds the smallest budget with which every rank has a plan.");
    return is_proved;
}

/* Refuses options that are only meaningful for a single graph. */
static int refuse(const options *o)
{
    const char *what = o->search.checkpoints                     ? "--checkpoints"
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
    const int64_t peak = mp_pipeline_report_peak(&p->report);
    MP_CHECK(find_smallest_budget(p, r, INFINITY, err));
    MP_ENSURE(p->smallest_bytes >= 0 && !p->is_only_enough, err, MP_LIMIT,
              "the search for the smallest budget of all ranks was stopped");
    *settled = (mp_budget){.kind = MP_BUDGET_BYTES, .bytes = mp_budget_resolve(asked, peak, p->smallest_bytes)};
    r->budget = settled;
    p->is_smallest = true;
    return MP_OK;
}

/* For --row-chunks auto: chooses the numbers of chunks of all ranks. Sets *chosen to the options with these numbers.
 * Sets *budgets to the bytes per rank, computed for whole regions. The caller releases *budgets with mp_free. */
static mp_status choose_row_chunks(pipeline *p, rank_plan_request *r, options *chosen, int64_t **budgets, mp_error *err)
{
    MP_CLEARED_BY(progress_end) progress shown = {0};
    const options *o = p->asked;
    mp_workload_options model = o->model;
    mp_request request = search_request(o);
    if (!(*budgets = mp_alloc((size_t)p->report.shape.n_ranks, sizeof **budgets))) return MP_NO_MEMORY(err);
    if (r->budget->kind == MP_BUDGET_BYTES) model.rank_bytes = r->budget->bytes;
    for (int rank = 0; rank < p->report.shape.n_ranks; rank++) {
        MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
        rank_options space;
        options one = pipeline_rank_options(p, rank, &space);
        MP_CLEARED_BY(outcome_free) outcome all = {.workload = &s, .asked = &one};
        one.model.rank_bytes = model.rank_bytes;
        MP_CHECK(load_workload(one.operands[0], &one, &s, err));
        MP_CHECK(outcome_start(&all, err));
        const mp_request of_rank = outcome_request(&all);
        MP_CHECK(outcome_find_budget(&all, r->budget, &of_rank, err));
        (*budgets)[rank] = all.budget_bytes;
    }
    request.solvers_off = r->solvers_off;
    request.time_limit = progress_time_left(&o->search);
    request.progress = progress_show;
    request.progress_data = &shown;
    progress_start(&shown, o, INT64_MAX, 0);
    MP_CHECK(mp_row_chunks_choose_for_ranks(o->operands[0], &model, &request, *budgets, o->search.offsets, p->row_chunks, err));
    *chosen = *o;
    chosen->model.row_chunks = p->row_chunks;
    p->asked = chosen;
    r->budgets = *budgets;
    return MP_OK;
}

int pipeline_plan(const options *o, const mp_budget *b, unsigned stages_off, unsigned solvers_off)
{
    mp_error err = {0};
    MP_CLEARED_BY(pipeline_free) pipeline p = {0};
    int without = -1, rc = refuse(o);
    rank_plan_request one = {.budget = b, .stages_off = stages_off, .solvers_off = solvers_off};
    mp_budget settled;
    options chosen;
    MP_OWNED int64_t *budgets = NULL;
    if (rc) return rc;
    if (pipeline_start(o, &p, &err) != MP_OK) return input_failed(&err);
    if (settle_budget(&p, &one, &settled, &err) != MP_OK) return input_failed(&err);
    if (mp_row_chunks_are_open(&o->model) && choose_row_chunks(&p, &one, &chosen, &budgets, &err) != MP_OK)
        return input_failed(&err);
    p.needs = (mp_needs){0}; /* memory of the plans, not of keep-all */
    for (int r = 0; r < p.report.shape.n_ranks; r++) {
        if (plan_rank(&p, r, &one, &err) != MP_OK) return input_failed(&err);
        if (!p.report.ranks[r].has_plan && without < 0) without = r;
    }
    if (without >= 0 && p.smallest_bytes < 0 && !o->talk.quiet && !interrupt_asked() &&
        find_smallest_budget(&p, &one, REFUSAL_SECONDS, &err) != MP_OK)
        return input_failed(&err);
    if (mp_pipeline_report_play(&p.report, &err) != MP_OK) return output_failed(&err);
    if (interrupt_asked()) complain("the search was cut short; this is the best it had found");
    if (o->talk.json) {
        rc = print_json("pipeline", pipeline_json(&p));
        return rc || without < 0 ? rc : no_plan_status(print_floors(&p, one.budget, true));
    }
    print_verdict(&p, without);
    if (!o->talk.quiet) {
        putchar('\n');
        print_ranks(&p);
        if (without < 0) {
            report_needs(&p.needs, "The fullest rank needs");
            pipeline_print_step(&p.report);
        } else {
            print_floors(&p, one.budget, false);
        }
        putchar('\n');
        print_verdict(&p, without);
    }
    return without < 0 ? EXIT_DONE : no_plan_status(print_floors(&p, one.budget, true));
}
