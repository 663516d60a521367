#include "planner/arena_solve.h"

#include <time.h>

#include "planner/arena.h"
#include "planner/check.h"

enum { ROUNDS = 5, QUICKER = 2 /* after the first */ };

int64_t mp_plan_need(const mp_plan *plan)
{
    return plan->arena_bytes < 0 ? plan->peak_bytes : plan->static_bytes + plan->arena_bytes;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
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

/* Keeps of two answers the later one, and the smaller of their smallest plans. */
static void keep(mp_answer *found, mp_answer *later)
{
    if (found->smallest && mp_plan_need(found->smallest) <= mp_plan_need(later->smallest)) {
        mp_plan *smallest = later->smallest;
        later->smallest = found->smallest;
        found->smallest = smallest;
    }
    later->stopped |= found->stopped;
    if (found->bound_covers) {
        later->bound_ticks = found->bound_ticks;
        later->bound_covers = found->bound_covers;
        later->infeasible = found->infeasible;
    }
    mp_answer_free(found);
    *found = *later;
    *later = (mp_answer){0};
}

mp_status mp_solve_with_arena(const mp_request *request, mp_answer *answer, mp_error *err)
{
    mp_status st = MP_OK;
    const double start = now();
    const int64_t budget = request->budget_bytes;
    mp_request r = *request;
    mp_answer found = {0}, later = {0};
    mp_plan *before = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        MP_TRY(mp_solve(&r, &later, err));
        MP_TRY(lay_out(r.graph, later.smallest, INT64_MAX, err));
        if (later.plan) MP_TRY(lay_out(r.graph, later.plan, budget, err));
        keep(&found, &later);
        if (!found.plan || mp_plan_need(found.plan) <= budget) break;
        r.budget_bytes = found.plan->peak_bytes - (mp_plan_need(found.plan) - budget);
        mp_plan_free(before);
        before = found.plan;
        found.plan = NULL;
        r.start = before;
        r.refine = true;
        if (request->moves <= 0) r.moves = mp_default_moves(r.graph) / QUICKER;
        r.wants_bound = false; /* the first round's is that of the budget which was asked for */
        if (request->time_limit > 0) r.time_limit = request->time_limit - (now() - start);
        if (found.stopped || r.budget_bytes < found.floor_bytes || (request->time_limit > 0 && r.time_limit <= 0)) break;
    }
    if (!found.plan && mp_plan_need(found.smallest) <= budget) MP_TRY(take_smallest(request, &found, err));
    if (found.plan && found.bound_covers) MP_TRY(mp_answer_claim_bound(&found, request->graph, err));
    *answer = found;
    found = (mp_answer){0};
done:
    mp_plan_free(before);
    mp_answer_free(&found);
    mp_answer_free(&later);
    return st;
}
