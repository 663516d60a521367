/* arena_solve.c - finds a plan whose arena and static bytes are within the user's budget. An arena may be larger than the
 * plan's peak of live bytes. So the search is repeated in rounds, with smaller or larger budgets on live bytes. */
#include "memplan/arena_solve.h"

#include "estimator/base/clock.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/solve/smallest.h"
#include "planner/solve/solver.h"

/* ROUNDS: most rounds without a time limit. QUICKER: the factor by which later rounds are shorter than the first.
 * LIMITED_ROUNDS: most rounds with a time limit. */
enum { ROUNDS = 5, QUICKER = 2, LIMITED_ROUNDS = 16 };

/* ---- one plan ---- */

/* Returns true after the deadline, which ends the search for offsets. The deadline leaves time for another plan. */
static bool is_late(void *data)
{
    return mp_clock_now() > *(const double *)data;
}

/* Assigns offsets to a plan, by `deadline` (0: none), and sets its budgets. If the plan exceeds the budget, its budget becomes
 * MP_NO_LIMIT. If the checker refutes the plan, the error is internal. */
static mp_status lay_out(const mp_request *request, mp_plan *plan, double deadline, mp_error *err)
{
    const mp_graph *graph = request->graph;
    const int64_t budget_bytes = request->budget_bytes, *tier_bytes = request->tier_bytes;
    mp_arena_options options = {.tier_bytes = tier_bytes, .data = &deadline};
    options.first_fit = request->first_fit && plan->peak_bytes <= budget_bytes;
    if (budget_bytes < MP_NO_LIMIT) options.capacity_bytes = budget_bytes - plan->static_bytes;
    if (deadline > 0) options.stop = is_late;
    MP_CHECK(mp_arena_layout_within(graph, plan, &options, err));
    plan->budget_bytes = mp_plan_need(plan) > budget_bytes ? MP_NO_LIMIT : budget_bytes;
    for (int m = 1; m < (int)graph->n_tiers; m++) {
        const bool fits = tier_bytes[m] && mp_plan_tier_need(graph, plan, m) <= tier_bytes[m];
        plan->tiers[m].budget_bytes = fits ? tier_bytes[m] : MP_NO_LIMIT;
    }
    return mp_plan_check(graph, plan, err);
}

static void replace(mp_plan **to, mp_plan **from)
{
    mp_plan_free(*to);
    *to = *from;
    *from = NULL;
}

/* Called after a round. If the round found no plan, but its smallest plan has a lower peak than the last plan, this smallest
 * plan becomes the round's plan, because its arena may fit. */
static void step_down(const mp_plan *last, mp_answer *later)
{
    if (later->plan || !last || later->smallest->peak_bytes >= last->peak_bytes) return;
    later->plan = later->smallest;
    later->smallest = NULL;
}

/* Moves the results of a later round to the answer, except the round's plan. Of the two smallest plans, keeps the smaller
 * one. */
static void keep(mp_answer *found, mp_answer *later)
{
    if (!found->smallest || (later->smallest && later->smallest->peak_bytes < found->smallest->peak_bytes))
        replace(&found->smallest, &later->smallest);
    found->stopped |= later->stopped;
}

/* Returns the budget on live bytes for the next round. It is the user's budget minus a margin: the bytes by which the arena of
 * `plan` exceeds the plan's peak of live bytes. So a plan with an equally fragmented arena fits. With a time limit, this margin
 * is multiplied by the number of failed rounds, so that the last rounds succeed. */
static int64_t next_budget(const mp_plan *plan, int64_t budget_bytes, int n_in_vain)
{
    const int64_t free_bytes = budget_bytes - mp_plan_need(plan), next = plan->peak_bytes + free_bytes * n_in_vain;
    return n_in_vain < 2 || next < plan->floor_bytes ? plan->peak_bytes + free_bytes : next;
}

/* True if another round can hardly find a better plan than `fits`. That is so in two cases. `fits` takes hardly longer than
 * least_ticks, the ticks of the first round's plan. Or the peak of `fits` almost equals next_bytes, the budget of the next
 * round. */
static bool is_near(const mp_plan *fits, int64_t least_ticks, int64_t next_bytes)
{
    enum { OF_TIME = 1000, OF_BYTES = 1000 };
    return fits->ticks - least_ticks <= fits->baseline_ticks / OF_TIME ||
           next_bytes - fits->peak_bytes <= next_bytes / OF_BYTES;
}

/* ---- rounds ---- */

/* A sequence of searches (rounds) that share one time limit. */
typedef struct rounds {
    const mp_request *request; /* the caller's request */
    mp_request now;            /* the request for the present round */
    double start;
    double again;  /* time for a round as long as no plan fits with its arena, as a fraction of the time limit */
    bool is_ended; /* true if the caller has ended the search by its progress function */
} rounds;

/* Calls the caller's progress function. If the function ends one round, it ends all rounds. */
static bool tell(const mp_progress *progress, void *data)
{
    rounds *r = data;
    if (!r->request->progress(progress, r->request->progress_data)) r->is_ended = true;
    return !r->is_ended;
}

/* Returns the time by which the arena of a plan must be found; 0: no limit. The smallest plan is the last plan, so its arena
 * may take all remaining time. If the caller has ended the search, half a second is allowed, which is enough for most
 * arenas. */
static double deadline(const rounds *r, bool is_last)
{
    const double limit = r->request->time_limit, now = mp_clock_now(), left = limit - (now - r->start);
    const double share = is_last ? MP_ARENA_TIME_SHARE / 2 : MP_ARENA_LAYOUT_SHARE;
    const double HALF = 0.5;
    if (r->is_ended && (limit <= 0 || left > HALF)) return now + HALF;
    return limit <= 0 ? 0 : now + (is_last || share * limit < left ? share * limit : left);
}

/* Calls mp_smallest_plan so that the plan gets an arena, whether or not the caller asks for one: the user's budget limits
 * arenas. */
static mp_status smallest_with_arena(const mp_request *request, bool with_arena, mp_plan **out, mp_error *err)
{
    (void)with_arena;
    return mp_smallest_plan(request, true, out, err);
}

static void begin_rounds(rounds *r, const mp_request *request)
{
    *r = (rounds){.request = request, .now = *request, .start = mp_clock_now(), .again = MP_ARENA_AGAIN_SHARE};
    r->now.skips_if_proved = true;
    r->now.find_smallest = smallest_with_arena;
    if (request->progress) {
        r->now.progress = tell;
        r->now.progress_data = r;
    }
    if (request->time_limit > 0) r->now.time_limit = (1 - MP_ARENA_TIME_SHARE) * request->time_limit;
}

/* Prepares the request for a later round. The round starts from a plan that fits, or if there is none from the last plan. It is
 * shorter than the first round. It proves no bound, because the first round proves the bound for the requested budget. While no
 * plan fits, each round gets only a small share of the time, so that other rounds can follow. Returns false if no time is
 * left. */
static bool ask_again(rounds *r, const mp_plan *fits, const mp_plan *last, int64_t budget_bytes)
{
    const mp_request *request = r->request;
    const mp_plan *start = fits ? fits : last;
    r->now.budget_bytes = budget_bytes;
    r->now.start = start;
    r->now.refine = true;
    r->now.wants_bound = r->now.skips_if_proved = false;
    const int64_t moves = request->moves > 0 ? request->moves : mp_default_moves(request->graph);
    if (request->moves <= 0 || request->first_fit) r->now.moves = moves > QUICKER ? moves / QUICKER : 1;
    if (request->time_limit <= 0) return true;
    const double limit = request->time_limit, share = r->again * limit;
    /* a part of the remaining time is reserved for finding the offsets of the arena */
    const double left = (1 - MP_ARENA_LAYOUT_SHARE) * limit - (mp_clock_now() - r->start);
    r->now.time_limit = fits || left < share ? left : share;
    return left > 0;
}

/* Answers a request that already has a problem (mp_request.problem). */
static mp_status solve(const mp_request *request, mp_answer *answer, mp_error *err)
{
    const int64_t budget = request->budget_bytes;
    const int most = request->time_limit > 0 ? LIMITED_ROUNDS : ROUNDS;
    int64_t least_ticks = 0;
    int n_in_vain = 0;
    rounds r;
    MP_CLEARED_BY(mp_answer_free) mp_answer found = {0}, later = {0};
    MP_OWNED_BY(mp_plan_free)
    /* last: the most recent plan that did not fit; fits: the fastest plan that fits */
    mp_plan *last = NULL, *fits = NULL;
    begin_rounds(&r, request);
    for (int round = 0; round < most; round++) {
        MP_CHECK(mp_solve(&r.now, &later, err));
        if (round == 0) {
            found = later;
            found.plan = found.smallest = NULL;
            later.least = NULL;
            later.report = NULL;
            if (later.plan) least_ticks = later.plan->ticks;
        }
        step_down(last, &later);
        keep(&found, &later);
        if (!later.plan) {
            mp_answer_free(&later);
            r.again *=
                /* the last round found no plan: it was too short, or its budget was too low. So the next round gets twice the
                 * time */
                2;
            n_in_vain = 0;
            if (!last || fits || r.is_ended || request->time_limit <= 0) break;
            if (!ask_again(&r, NULL, last, next_budget(last, budget, 1))) break;
            continue;
        }
        MP_CHECK(lay_out(request, later.plan, deadline(&r, false), err));
        const bool does_fit = mp_request_fits_plan(request, later.plan);
        /* true: the plan is within the device's budget, and exceeds only the budget of another tier */
        const bool is_beside = !does_fit && mp_plan_need(later.plan) <= budget;
        mp_request_lower_tiers(request, later.plan, round == most - 2, r.now.tier_bytes);
        if (!does_fit && !fits && request->time_limit > 0) n_in_vain++;
        const int64_t next = is_beside ? r.now.budget_bytes : next_budget(later.plan, budget, does_fit ? 0 : n_in_vain);
        if (!does_fit)
            replace(&last, &later.plan);
        else if (!fits || later.plan->ticks < fits->ticks)
            replace(&fits, &later.plan);
        mp_answer_free(&later);
        /* true: the first plan fits with its arena although its search was stopped; another round can use the time that was
         * reserved for arenas */
        const bool has_left = round == 0 && fits && found.stopped;
        if (fits && (request->first_fit || (round == 0 && !has_left))) break;
        if (!has_left && fits && (next <= fits->peak_bytes || is_near(fits, least_ticks, next))) break;
        if (r.is_ended || next < found.floor_bytes || !ask_again(&r, fits, last, has_left ? budget : next)) break;
    }
    found.plan = fits;
    fits = NULL;
    found.stopped |= r.is_ended;
    MP_CHECK(mp_answer_fall_back(request, true, r.start, &found, err));
    if (found.smallest->arena_bytes < 0 && !(found.plan && request->first_fit))
        MP_CHECK(lay_out(request, found.smallest, deadline(&r, !found.plan), err));
    found.smallest->budget_bytes = MP_NO_LIMIT;
    if (!found.plan && mp_request_fits_plan(request, found.smallest))
        /* if the search was stopped before it found a plan, the smallest plan becomes the answer */
        MP_CHECK(mp_answer_take_smallest(request, &found, err));
    if (found.plan && found.bound.ticks >= 0) MP_CHECK(mp_answer_claim_bound(&found, request->graph, err));
    if (found.plan) found.plan->cut_short = found.stopped;
    *answer = found;
    found = (mp_answer){0};
    return MP_OK;
}

mp_status mp_solve_with_arena(const mp_request *request, mp_answer *answer, mp_error *err)
{
    mp_request asked;
    MP_OWNED_BY(mp_problem_free) mp_problem *own = NULL;
    MP_CHECK(mp_request_complete(request, &asked, &own, err));
    return solve(&asked, answer, err);
}
