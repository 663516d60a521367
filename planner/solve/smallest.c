/* smallest.c - finds the smallest plan. It searches for the lowest peak, on a copy of the graph in which the ticks of a node
 * are proportional to its bytes. Then it assigns offsets. */
#include "planner/solve/smallest.h"

#include <string.h>

#include "estimator/base/clock.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "planner/floor/problem.h"
#include "planner/search/algorithms.h"
#include "planner/solve/solver.h"

/* largest number of searches for a plan whose arenas fit in all tiers; in the last search, nothing is copied to a tier whose
 * budget was exceeded */
enum { TIER_ROUNDS = 4 };

static int64_t bytes_touched(const mp_graph *graph, const mp_alternative *a)
{
    enum { MOST = 1 << 30 }; /* limit on the ticks of a node, so that sums over all steps of a search do not overflow */
    const int *const lists[] = {a->reads, a->writes, a->adds};
    const size_t lengths[] = {a->n_reads, a->n_writes, a->n_adds};
    int64_t kib = 1;
    for (int l = 0; l < 3; l++)
        for (size_t k = 0; k < lengths[l] && kib < MOST; k++) kib += graph->storages[lists[l][k]].bytes >> 10;
    return kib < MOST ? kib : MOST;
}

/* Builds a copy of the graph in which each alternative takes one tick per KiB that it reads and writes. */
static mp_status timeless_of(const mp_graph *graph, mp_variant *out, mp_error *err)
{
    MP_CHECK(mp_variant_of(graph, out, err));
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t k = 0; k < graph->nodes[i].n_alternatives; k++)
            out->graph.nodes[i].alternatives[k].ticks = bytes_touched(graph, &graph->nodes[i].alternatives[0]);
    return MP_OK;
}

/* Converts a schedule to a plan of the original graph. Chooses the fastest algorithms with which the peak does not rise. */
static mp_status plan_of(const mp_graph *graph, const mp_plan *found, mp_plan **out, mp_error *err)
{
    MP_OWNED mp_step *steps = mp_alloc(found->n_steps, sizeof *steps);
    MP_ENSURE(steps, err, MP_NOMEM, "out of memory for %zu steps", found->n_steps);
    memcpy(steps, found->steps, found->n_steps * sizeof *steps);
    if (mp_graph_has_algorithms(graph)) MP_CHECK(mp_algorithms_choose(graph, steps, found->n_steps, 0, NULL, err));
    MP_CHECK(mp_plan_new(graph, found->solver, steps, found->n_steps, out, err));
    (*out)->floor_bytes = found->floor_bytes;
    return MP_OK;
}

/* Copies a list of offsets. */
static mp_status copy_places(const mp_place *from, size_t n, mp_place **to, size_t *n_to, mp_error *err)
{
    MP_ENSURE(*to = mp_alloc(n, sizeof **to), err, MP_NOMEM, "no memory for %zu offsets", n);
    if (n) memcpy(*to, from, n * sizeof **to);
    *n_to = n;
    return MP_OK;
}

/* Copies a plan with its offsets. */
static mp_status copy_of(const mp_graph *graph, const mp_plan *plan, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *copy = NULL;
    MP_CHECK(mp_plan_new(graph, plan->solver, plan->steps, plan->n_steps, &copy, err));
    copy->arena_bytes = plan->arena_bytes;
    if (plan->arena_bytes >= 0) MP_CHECK(copy_places(plan->places, plan->n_places, &copy->places, &copy->n_places, err));
    for (size_t m = 1; m < graph->n_tiers; m++) {
        const mp_tier_claim *from = &plan->tiers[m];
        mp_tier_claim *to = &copy->tiers[m];
        to->arena_bytes = from->arena_bytes;
        if (from->arena_bytes >= 0) MP_CHECK(copy_places(from->places, from->n_places, &to->places, &to->n_places, err));
    }
    *out = copy;
    copy = NULL;
    return MP_OK;
}

bool mp_request_lower_tiers(const mp_request *request, const mp_plan *plan, bool is_last, int64_t *tier_bytes)
{
    bool is_over = false;
    for (int m = 1; m < (int)request->graph->n_tiers; m++) {
        const mp_tier_claim *claim = &plan->tiers[m];
        const int64_t need = mp_plan_tier_need(request->graph, plan, m), over = need - request->tier_bytes[m];
        if (!request->tier_bytes[m] || over <= 0) continue;
        const double live = (double)(claim->peak_bytes - claim->static_bytes), arena = (double)claim->arena_bytes;
        const double fits = over < claim->arena_bytes ? live * (1 - (double)over / arena) : 0;
        tier_bytes[m] = claim->static_bytes + (is_last || fits < 1 ? 1 : (int64_t)fits);
        is_over = true;
    }
    return is_over;
}

mp_status mp_smallest_plan(const mp_request *request, bool with_arena, mp_plan **out, mp_error *err)
{
    const mp_graph *graph = request->graph;
    MP_CLEARED_BY(mp_variant_free) mp_variant x = {0};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    MP_CHECK(timeless_of(graph, &x, err));
    if (request->problem) MP_CHECK(mp_problem_of_ticks(&x.graph, request->problem, &problem, err));
    mp_request asked = {.graph = &x.graph,
                        .problem = problem,
                        .budget_bytes = 0, /* no plan fits this budget, so the search only tries to find smaller peaks */
                        .wants_bound = true,
                        .solver = request->solver,
                        .own = request->own,
                        .checkpoints = request->checkpoints,
                        .n_checkpoints = request->n_checkpoints,
                        .solvers_off = request->solvers_off,
                        .keep_order = request->keep_order,
                        .time_limit = request->time_limit,
                        .progress = request->progress,
                        .progress_data = request->progress_data};
    memcpy(asked.tier_bytes, request->tier_bytes, sizeof asked.tier_bytes);
    for (int round = 0;; round++) {
        MP_CHECK(mp_solve(&asked, &answer, err));
        MP_CHECK(plan_of(graph, answer.smallest, &plan, err));
        if (!with_arena) break;
        const mp_arena_options options = {.capacity_bytes = plan->peak_bytes - plan->static_bytes,
                                          .tier_bytes = request->tier_bytes};
        MP_CHECK(mp_arena_layout_within(graph, plan, &options, err));
        if (round == TIER_ROUNDS || !mp_request_lower_tiers(request, plan, round == TIER_ROUNDS - 1, asked.tier_bytes)) break;
        mp_answer_free(&answer);
        mp_plan_free(plan);
        plan = NULL;
    }
    MP_CHECK(mp_plan_check(graph, plan, err));
    *out = plan;
    plan = NULL;
    return MP_OK;
}

/* ---- using the smallest plan as an answer ---- */

mp_status mp_answer_take_smallest(const mp_request *request, mp_answer *answer, mp_error *err)
{
    if (!answer->plan) MP_CHECK(copy_of(request->graph, answer->smallest, &answer->plan, err));
    answer->plan->seed = request->seed;
    answer->plan->floor_bytes = answer->floor_bytes;
    answer->plan->budget_bytes = request->budget_bytes;
    for (size_t m = 1; m < request->graph->n_tiers; m++)
        if (request->tier_bytes[m]) answer->plan->tiers[m].budget_bytes = request->tier_bytes[m];
    return mp_plan_check(request->graph, answer->plan, err);
}

/* True if the request's start plan fits the budget as it is, so that it can be the answer. */
static bool is_in_hand(const mp_request *request, bool with_arena)
{
    const mp_plan *start = request->start;
    return start && (!with_arena || start->arena_bytes >= 0) && mp_request_fits_plan(request, start);
}

mp_status mp_answer_fall_back(const mp_request *request, bool with_arena, double start, mp_answer *answer, mp_error *err)
{
    mp_request left = *request;
    mp_plan *smallest = NULL;
    if (answer->plan) return MP_OK;
    if (is_in_hand(request, with_arena)) {
        MP_CHECK(copy_of(request->graph, request->start, &answer->plan, err));
        return mp_answer_take_smallest(request, answer, err);
    }
    if (answer->stopped) return MP_OK;
    if (request->time_limit > 0) left.time_limit -= mp_clock_now() - start;
    if (request->time_limit > 0 && left.time_limit <= 0) return MP_OK;
    if (!answer->least || request->time_limit > 0) MP_CHECK(mp_smallest_plan(&left, with_arena, &smallest, err));
    mp_plan_free(answer->smallest);
    answer->smallest = smallest ? smallest : answer->least;
    if (!smallest) answer->least = NULL;
    if (!mp_request_fits_plan(request, answer->smallest)) return MP_OK;
    return mp_answer_take_smallest(request, answer, err);
}

mp_status mp_solve_or_smallest(const mp_request *request, mp_answer *answer, mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer found = {0};
    mp_request asked, first;
    MP_OWNED_BY(mp_problem_free) mp_problem *own = NULL;
    const double start = mp_clock_now();
    MP_CHECK(mp_request_complete(request, &asked, &own, err));
    first = asked;
    first.skips_if_proved = true;
    first.find_smallest = mp_smallest_plan;
    MP_CHECK(mp_solve(&first, &found, err));
    MP_CHECK(mp_answer_fall_back(&asked, false, start, &found, err));
    if (found.plan && found.bound.ticks >= 0) MP_CHECK(mp_answer_claim_bound(&found, request->graph, err));
    if (found.plan) found.plan->cut_short = found.stopped;
    *answer = found;
    found = (mp_answer){0};
    return MP_OK;
}
