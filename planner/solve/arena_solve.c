/* arena_solve.c - searches repeated with smaller or larger budgets until the plan fits with its arena. */
#include "memplan/arena_solve.h"

#include "estimator/base/clock.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "memplan/search.h"
#include "planner/solve/solver.h"

enum { ROUNDS = 5, QUICKER = 2 /* after the first */ };

int64_t mp_plan_need(const mp_plan *plan)
{
    return plan->arena_bytes < 0 ? plan->peak_bytes : plan->static_bytes + plan->arena_bytes;
}

/* Lays a plan out and says which budget it is for: none if it is over. A fault that the check finds is ours. */
static mp_status lay_out(const mp_graph *graph, mp_plan *plan, int64_t budget_bytes, mp_error *err)
{
    mp_status st = MP_OK;
    MP_TRY(mp_arena_layout(graph, plan, err));
    plan->budget_bytes = budget_bytes == INT64_MAX || mp_plan_need(plan) > budget_bytes ? -1 : budget_bytes;
    MP_TRY(mp_plan_check(graph, plan, err));
done:
    return st;
}

/* The smallest plan once more, as the answer. */
static mp_status take_smallest(const mp_request *request, mp_answer *found, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_plan *smallest = found->smallest;
    mp_plan *plan = NULL;
    MP_TRY(mp_plan_new(request->graph, smallest->solver, smallest->steps, smallest->n_steps, &plan, err));
    plan->seed = smallest->seed;
    plan->floor_bytes = smallest->floor_bytes;
    MP_TRY(lay_out(request->graph, plan, request->budget_bytes, err));
    found->plan = plan;
    plan = NULL;
done:
    mp_plan_free(plan);
    return st;
}

static void replace(mp_plan **to, mp_plan **from)
{
    mp_plan_free(*to);
    *to = *from;
    *from = NULL;
}

/* Takes what an answer of a later round has but its plan: the smaller of the smallest plans. */
static void keep(mp_answer *found, mp_answer *later)
{
    if (!found->smallest || mp_plan_need(later->smallest) < mp_plan_need(found->smallest))
        replace(&found->smallest, &later->smallest);
    found->stopped |= later->stopped;
}

/* What the next round searches within: if its arena exceeds what lives by as much as the plan's does, it just fits. */
static int64_t next_budget(const mp_plan *plan, int64_t budget_bytes)
{
    return plan->peak_bytes + (budget_bytes - mp_plan_need(plan));
}

/* Whether a plan that fits is worth no further round: hardly slower than the one that went over, or hardly smaller than what
 * the next round would search within. */
static bool is_near(const mp_plan *fits, int64_t least_ticks, int64_t next_bytes)
{
    enum { OF_TIME = 1000, OF_BYTES = 1000 };
    return fits->ticks - least_ticks <= fits->baseline_ticks / OF_TIME ||
           next_bytes - fits->peak_bytes <= next_bytes / OF_BYTES;
}

/* After the first round: from the plan it left, quicker, and without a bound, for the first round's is that of the budget which
 * was asked for. */
static void ask_again(mp_request *r, const mp_request *request, const mp_plan *start, int64_t budget_bytes, double elapsed)
{
    r->budget_bytes = budget_bytes;
    r->start = start;
    r->refine = true;
    r->wants_bound = false;
    if (request->moves <= 0) r->moves = mp_default_moves(r->graph) / QUICKER;
    if (request->time_limit > 0) r->time_limit = request->time_limit - elapsed;
}

mp_status mp_solve_with_arena(const mp_request *request, mp_answer *answer, mp_error *err)
{
    mp_status st = MP_OK;
    const double start = mp_clock_now();
    const int64_t budget = request->budget_bytes;
    int64_t least_ticks = 0;
    mp_request r = *request;
    mp_answer found = {0}, later = {0};
    mp_plan *last = NULL,
            *fits = NULL; /* of the plans that have been found the last that did not fit, the cheapest that does */
    for (int round = 0; round < ROUNDS; round++) {
        MP_TRY(mp_solve(&r, &later, err));
        MP_TRY(lay_out(r.graph, later.smallest, INT64_MAX, err));
        if (later.plan) MP_TRY(lay_out(r.graph, later.plan, budget, err));
        if (round == 0) {
            found = later;
            found.plan = found.smallest = NULL;
            later.report = NULL;
            if (later.plan) least_ticks = later.plan->ticks;
        }
        keep(&found, &later);
        if (!later.plan) break;
        const bool does_fit = mp_plan_need(later.plan) <= budget;
        const int64_t next = next_budget(later.plan, budget);
        if (!does_fit)
            replace(&last, &later.plan);
        else if (!fits || later.plan->ticks < fits->ticks)
            replace(&fits, &later.plan);
        mp_answer_free(&later);
        if (round == 0 && fits) break;
        if (fits && (next <= fits->peak_bytes || is_near(fits, least_ticks, next))) break;
        ask_again(&r, request, fits ? fits : last, next, mp_clock_now() - start);
        if (found.stopped || next < found.floor_bytes || (request->time_limit > 0 && r.time_limit <= 0)) break;
    }
    found.plan = fits;
    fits = NULL;
    if (!found.plan && mp_plan_need(found.smallest) <= budget) MP_TRY(take_smallest(request, &found, err));
    if (found.plan && found.bound.ticks >= 0) MP_TRY(mp_answer_claim_bound(&found, request->graph, err));
    *answer = found;
    found = (mp_answer){0};
done:
    mp_plan_free(last);
    mp_plan_free(fits);
    mp_answer_free(&found);
    mp_answer_free(&later);
    return st;
}
