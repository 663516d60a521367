/* solver_stages.c - answers a request for a graph with copies. The search has five stages:
 * - each storage is kept, offloaded or recomputed, by published rules and then by random changes of these choices
 * - plans without copies
 * - on tiny graphs, the exact search over plans in which all steps run in order, copies included
 * - plans that copy and never recompute
 * - annealing with moves of all kinds
 *
 * A stage is skipped if it is proved that it cannot find a better plan. */
#include "planner/solve/solver.h"

#include <string.h>

#include "estimator/base/clock.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/without_copies.h"
#include "estimator/graph/without_state_copies.h"
#include "memplan/check.h"
#include "planner/bound/proof.h"
#include "planner/math/tuning.h"
#include "planner/offload/copies.h"
#include "planner/offload/state.h"
#include "planner/order/variant.h"
#include "planner/search/searchers.h"
#include "planner/solve/portfolio.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    COPIES_LOST_FEWER = 4, /* if no plan seems possible, the search makes 1/4 of the normal moves */
};
static const double COPIES_PLAIN_SHARE = 0.4; /* part of the time limit at which the searches of the graph without copies end */
static const double COPIES_ONLY_SHARE = 0.6;  /* part of the time limit at which the search for plans that only copy ends */

typedef struct stages {
    const mp_request *request;
    mp_without_copies without_copies;
    double start;
    mp_plan *best;   /* NULL: none yet */
    mp_plan *chosen; /* the plan found by random changes of choices. It is not the start of any other search; NULL: none */
    mp_plan *least;  /* the smallest plan; NULL: not computed yet */
    bool stopped;
} stages;

static void clear(stages *x)
{
    mp_without_copies_free(&x->without_copies);
    mp_plan_free(x->best);
    mp_plan_free(x->chosen);
    mp_plan_free(x->least);
}

static bool fits(const mp_request *request, const mp_plan *plan)
{
    bool does = plan && plan->peak_bytes <= request->budget_bytes;
    for (size_t m = 1; does && m < request->graph->n_tiers; m++)
        does = !request->tier_bytes[m] || plan->tiers[m].peak_bytes <= request->tier_bytes[m];
    return does;
}

static int64_t ticks_of(const stages *x, const mp_plan *plan)
{
    return fits(x->request, plan) ? plan->ticks : INT64_MAX;
}

/* Returns the ticks of the best plan; INT64_MAX: no plan fits. */
static int64_t best_ticks(const stages *x)
{
    const int64_t best = ticks_of(x, x->best), chosen = ticks_of(x, x->chosen);
    return best < chosen ? best : chosen;
}

/* If the new plan *plan is better than the best plan, replaces the best plan by it and sets *plan to NULL. Of equally good
 * plans, the older one remains. */
static void hand_on(stages *x, mp_plan **plan)
{
    const bool does_fit = fits(x->request, *plan), did = fits(x->request, x->best);
    bool is_better = *plan && (!x->best || does_fit > did);
    if (*plan && x->best && does_fit == did)
        is_better = did ? (*plan)->ticks < x->best->ticks : (*plan)->peak_bytes < x->best->peak_bytes;
    if (!is_better) return;
    mp_plan_free(x->best);
    x->best = *plan;
    *plan = NULL;
}

/* Returns the request for a stage of the search (see the head of this file). The stage must end at the fraction `share` of the
 * time limit. */
static mp_request ask(const stages *x, const char *solver, double share)
{
    const double LEAST = 1e-3, left = share * x->request->time_limit - (mp_clock_now() - x->start);
    mp_request asked = *x->request;
    asked.own = NULL;
    asked.solver = solver;
    asked.start = x->best;
    asked.checkpoints = NULL;
    if (asked.time_limit > 0) asked.time_limit = left > LEAST ? left : LEAST;
    return asked;
}

/* Issues the copies of a plan (copies.h). Replaces the plan if the plan with issued copies takes less time. */
static mp_status issue_copies(const mp_request *request, mp_plan **plan, mp_error *err)
{
    bool is_faster;
    mp_plan *after = NULL;
    MP_OWNED mp_step *steps = mp_alloc((*plan)->n_steps, sizeof *steps);
    MP_ENSURE(steps, err, MP_NOMEM, "out of memory for a plan of %zu steps", (*plan)->n_steps);
    MP_CHECK(mp_copies_issue(request, *plan, steps, &is_faster, err));
    if (!is_faster) return MP_OK;
    MP_CHECK(mp_plan_with_steps(request->graph, *plan, steps, &after, err));
    mp_plan_free(*plan);
    *plan = after;
    MP_CHECK(mp_plan_check(request->graph, after, err));
    if (!request->on_offer) return MP_OK;
    return request->on_offer(after->steps, after->n_steps, after->peak_bytes, after->ticks, request->on_offer_data, err);
}

/* True if the best plan is so fast that annealing for a first plan without copies is not worthwhile. */
static bool is_in_hand(const stages *x)
{
    const int64_t ticks = best_ticks(x), all = mp_ticks_of_all(x->request->graph);
    return ticks < INT64_MAX && ticks - all <= (int64_t)(MP_COPIES_IN_HAND * (double)all);
}

/* Finds the best plan without copies, and converts it to a plan of the graph with copies. solvers_off: the searchers that do
 * not run. */
static mp_status solve_without_copies(stages *x, unsigned solvers_off, mp_error *err)
{
    static const mp_solver soon = {.name = "auto", .run = mp_run_auto_or_none, .chooses_algorithms = true};
    const mp_solver *named = mp_solver_find(x->request->solver ? x->request->solver : "auto");
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    mp_request asked = ask(x, x->request->solver, COPIES_PLAIN_SHARE);
    asked.own = x->request->own;
    if (!asked.own && named && named->run == mp_run_auto && is_in_hand(x)) asked.own = &soon;
    asked.checkpoints = x->request->checkpoints;
    asked.graph = x->without_copies.graph;
    asked.problem = NULL;
    asked.start = NULL;
    asked.refine = asked.explains_bound = false;
    asked.find_smallest = NULL;
    asked.solvers_off |= solvers_off;
    asked.on_offer = NULL;
    MP_CHECK(mp_request_complete(&asked, &asked, &problem, err));
    MP_CHECK(mp_solve_at_once(&asked, &answer, err));
    const mp_plan *found = answer.plan ? answer.plan : answer.smallest;
    mp_without_copies_to_original(&x->without_copies, found->steps, found->n_steps);
    x->stopped |= answer.stopped;
    MP_CHECK(mp_plan_new(x->request->graph, found->solver, found->steps, found->n_steps, &plan, err));
    MP_CHECK(issue_copies(x->request, &plan, err));
    hand_on(x, &plan);
    return MP_OK;
}

/* Runs a searcher that uses copies, and issues the copies of its plan. If the result is better than the best plan, replaces
 * it. */
static mp_status solve_copying(stages *x, const mp_request *stage, mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    mp_request asked = *stage;
    asked.wants_bound = asked.explains_bound = asked.refine = false;
    asked.on_offer = NULL;
    MP_CHECK(mp_solve_at_once(&asked, &answer, err));
    x->stopped |= answer.stopped;
    if (answer.plan) MP_CHECK(issue_copies(&asked, &answer.plan, err));
    hand_on(x, answer.plan ? &answer.plan : &answer.smallest);
    return MP_OK;
}

/* Sets *out to true if the best plan is so close to the bound that the request accepts it (--gap). */
static mp_status will_do(const stages *x, bool *out, mp_error *err)
{
    const mp_request *request = x->request;
    const int64_t ticks = best_ticks(x), all = mp_ticks_of_all(request->graph);
    const double gap = (request->gap > 0 ? request->gap : MP_EFFORT_GAP) * (double)all;
    mp_bound bound;
    *out = false;
    if (ticks == INT64_MAX || request->effort == MP_EFFORT_THOROUGH) return MP_OK;
    MP_CHECK(mp_copies_bound(request->graph, request->budget_bytes, request->tier_bytes, ticks, 0, &bound, err));
    *out = (double)(ticks - (bound.ticks > all ? bound.ticks : all)) <= gap;
    return MP_OK;
}

/* Searches by random changes of choices (mp_run_anneal_tensors). Does nothing if no published rule found a plan that fits,
 * because the search then seldom finds one. */
static mp_status choose_at_random(stages *x, mp_error *err)
{
    bool is_done;
    mp_plan *others = NULL;
    mp_request asked = ask(x, "anneal-tensors", COPIES_PLAIN_SHARE);
    if (best_ticks(x) == INT64_MAX) return MP_OK;
    MP_CHECK(will_do(x, &is_done, err));
    if (is_done) return MP_OK;
    MP_CHECK(mp_plan_new(x->request->graph, x->best->solver, x->best->steps, x->best->n_steps, &others, err));
    const mp_status st = solve_copying(x, &asked, err);
    x->chosen = x->best;
    x->best = others;
    return st;
}

/* x->chosen is the plan found by random changes of choices. If it is faster than the best plan, it becomes the best plan. If
 * the two plans are close, annealing first improves the plan that is not the best, because that may lead to a better local
 * minimum. */
static mp_status take_chosen(stages *x, mp_error *err)
{
    static const mp_solver moves = {.name = "anneal", .run = mp_run_anneal, .chooses_algorithms = true, .wants_copies = true};
    const int64_t others = ticks_of(x, x->best), chosen = ticks_of(x, x->chosen);
    mp_request asked = ask(x, "none", COPIES_ONLY_SHARE);
    asked.own = &moves;
    asked.effort = MP_EFFORT_QUICK;
    if (chosen < others && others < chosen + (int64_t)(MP_COPIES_NEAR * (double)chosen))
        MP_CHECK(solve_copying(x, &asked, err));
    hand_on(x, &x->chosen);
    return MP_OK;
}

/* Returns the ticks of all exchanges with other ranks. Plans without copies count them as compute. */
static int64_t exchange_ticks(const stages *x)
{
    return mp_ticks_of_all(x->without_copies.graph) - mp_ticks_of_all(x->request->graph);
}

/* Sets *out to true if plans without copies will hardly be faster than the best plan. Their bound assumes that compute waits
 * for every exchange, but their exchanges are issued later. So the time of all exchanges is subtracted from the bound. */
static mp_status is_useless_without_copies(const stages *x, bool *out, mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    const mp_bound_options options = {.effort = 0};
    mp_bound bound;
    *out = false;
    if (best_ticks(x) == INT64_MAX) return MP_OK;
    MP_CHECK(mp_problem_new(x->without_copies.graph, &problem, err));
    MP_CHECK(mp_prove(problem, x->request->budget_bytes, x->request->keep_order, &options, &bound, err));
    *out = bound.infeasible || bound.ticks - exchange_ticks(x) >= best_ticks(x);
    return MP_OK;
}

/* Sets *out to true if it is proved that plans without recomputation are not faster than the best plan. */
static mp_status is_copying_alone_in_vain(const stages *x, bool *out, mp_error *err)
{
    MP_CLEARED_BY(mp_variant_free) mp_variant once = {0};
    const mp_request *request = x->request;
    mp_bound bound;
    *out = false;
    if (best_ticks(x) == INT64_MAX) return MP_OK;
    MP_CHECK(mp_variant_of(request->graph, &once, err));
    for (size_t v = 0; v < once.graph.n_nodes; v++) mp_node_forbid_rerun(&once.graph.nodes[v]);
    MP_CHECK(mp_copies_bound(&once.graph, request->budget_bytes, request->tier_bytes, best_ticks(x), 0, &bound, err));
    *out = bound.ticks >= best_ticks(x);
    return MP_OK;
}

/* If no plan fits yet, finds the smallest plan and uses it as a start. */
static mp_status find_smallest(stages *x, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *start = NULL;
    mp_request asked = ask(x, x->request->solver, COPIES_ONLY_SHARE);
    if (best_ticks(x) < INT64_MAX || x->stopped) return MP_OK;
    MP_CHECK(asked.find_smallest(&asked, false, &x->least, err));
    MP_CHECK(mp_plan_new(asked.graph, x->least->solver, x->least->steps, x->least->n_steps, &start, err));
    hand_on(x, &start);
    return MP_OK;
}

/* True if even the smallest plan exceeds the budget, so that further searches will hardly find a plan. */
static bool is_hopeless(const stages *x)
{
    return x->least && best_ticks(x) == INT64_MAX;
}

/* Finds the plans from which annealing with all kinds of moves starts. */
static mp_status find_starts(stages *x, bool is_auto, mp_error *err)
{
    static const mp_solver rules = {
        .name = "auto", .run = mp_run_offload_rules, .chooses_algorithms = true, .wants_copies = true};
    bool is_in_vain;
    mp_error ours = {0};
    mp_request asked = ask(x, "none", COPIES_PLAIN_SHARE);
    asked.own = &rules;
    MP_CHECK(solve_copying(x, &asked, err));
    /* a stage of its own, because issued copies may change which plan is the fastest */
    asked = ask(x, "pooled-memory", COPIES_PLAIN_SHARE);
    MP_CHECK(solve_copying(x, &asked, err));
    MP_CHECK(choose_at_random(x, err));
    MP_CHECK(is_useless_without_copies(x, &is_in_vain, err));
    const bool is_lost = is_auto && x->request->find_smallest && best_ticks(x) == INT64_MAX;
    /* without a plan to start from, annealing is slow; the smallest plan shows whether a plan may exist at all */
    if (is_lost) {
        MP_CHECK(solve_without_copies(x, ~mp_portfolio_bit(mp_run_lagrange), err));
        MP_CHECK(find_smallest(x, err));
    }
    /* annealing of the graph without copies does not know that exchanges will be issued, so the plan of lagrange may be faster
     */
    const bool is_tiny = x->request->graph->n_nodes <= MP_AUTO_EXACT_NODES;
    if (!is_in_vain && !is_lost && is_auto && !is_tiny && exchange_ticks(x) > 0) {
        MP_CHECK(solve_without_copies(x, ~mp_portfolio_bit(mp_run_lagrange), err));
        MP_CHECK(will_do(x, &is_in_vain, err));
    }
    if (!is_in_vain && (!is_lost || best_ticks(x) < INT64_MAX)) MP_CHECK(solve_without_copies(x, 0, err));
    if (is_auto && x->request->graph->n_nodes <= MP_AUTO_EXACT_NODES) {
        asked = ask(x, "exact", COPIES_PLAIN_SHARE);
        /* the exact search runs copies in order. It must not be limited by the ticks of the best plan, because its plan may
         * become faster when its copies are issued */
        asked.start = NULL;
        const mp_status st = solve_copying(x, &asked, &ours);
        if (st != MP_OK && st != MP_NOT_APPLICABLE && err && err->code == MP_OK) *err = ours;
        if (st != MP_OK && st != MP_NOT_APPLICABLE) return st;
    }
    if (is_hopeless(x)) return MP_OK;
    MP_CHECK(is_copying_alone_in_vain(x, &is_in_vain, err));
    asked = ask(x, "copy-only", COPIES_ONLY_SHARE);
    asked.start = NULL;
    if (!is_in_vain) MP_CHECK(solve_copying(x, &asked, err));
    return take_chosen(x, err);
}

/* Proves a bound for plans with copies. If this bound is higher than the bound of the answer, it replaces the bound of the
 * answer. */
static mp_status bound_copies(const mp_request *request, mp_answer *answer, mp_error *err)
{
    mp_bound bound;
    MP_CHECK(mp_copies_bound(request->graph, request->budget_bytes, request->tier_bytes, answer->plan->ticks, 1, &bound, err));
    if (bound.ticks <= answer->bound.ticks) return MP_OK;
    answer->bound = bound;
    return mp_answer_claim_bound(answer, request->graph, err);
}

/* Answers a request that already has a problem, for a graph with copies. */
static mp_status solve_in_stages(const mp_request *request, mp_answer *answer, mp_error *err)
{
    static const mp_solver copying = {.name = "auto", .run = mp_run_copies, .chooses_algorithms = true, .wants_copies = true};
    const mp_solver *solver = request->own ? request->own : mp_solver_find(request->solver ? request->solver : "auto");
    MP_CLEARED_BY(clear) stages x = {.request = request, .start = mp_clock_now()};
    MP_ENSURE(solver, err, MP_INVALID, "there is no solver '%s'", request->solver);
    if (solver->wants_copies) return mp_solve_at_once(request, answer, err);
    const bool is_exact = solver->run == mp_run_exact, is_auto = solver->run == mp_run_auto;
    const bool moves = is_auto || solver->run == mp_run_anneal;
    const mp_plan *start = request->start;
    MP_CHECK(mp_graph_without_copies(request->graph, &x.without_copies, err));
    if (start) MP_CHECK(mp_plan_new(request->graph, start->solver, start->steps, start->n_steps, &x.best, err));
    if (moves && !(request->refine && start))
        MP_CHECK(find_starts(&x, is_auto, err));
    else if (!moves && !is_exact)
        MP_CHECK(solve_without_copies(&x, 0, err));
    mp_request asked = ask(&x, is_exact ? "exact" : "none", 1);
    asked.own = moves ? &copying : NULL;
    if (is_hopeless(&x)) {
        asked.refine = true;
        asked.moves = (asked.moves > 0 ? asked.moves : mp_default_moves(request->graph)) / COPIES_LOST_FEWER;
    }
    MP_CHECK(mp_solve_at_once(&asked, answer, err));
    answer->least = x.least;
    x.least = NULL;
    answer->stopped |= x.stopped;
    if (!answer->plan) return MP_OK;
    MP_CHECK(issue_copies(request, &answer->plan, err));
    return mp_request_is_bounded(request) ? bound_copies(request, answer, err) : MP_OK;
}

/* Adds the copies of optimizer state to the plans of the graph without state copies. Proves the bound of the plan that fits. */
static mp_status copy_state(const mp_request *request, const mp_graph *without_state, const mp_answer *found_without,
                            mp_answer *found, mp_error *err)
{
    const mp_graph *graph = request->graph;
    mp_bound *bound = &found->bound, with_copies;
    mp_floor_reason reason;
    MP_CHECK(mp_problem_floor(request->problem, &found->floor_bytes, &reason, err));
    found->floor_node = reason.node;
    MP_CHECK(mp_state_in_order(graph, found_without->smallest, &found->smallest, err));
    found->smallest->floor_bytes = found->floor_bytes;
    MP_CHECK(mp_plan_check(graph, found->smallest, err));
    if (!found_without->plan) return MP_OK;
    MP_CHECK(mp_state_plan(request, without_state, found_without->plan, &found->plan, err));
    mp_plan_take_request(request, found->floor_bytes, found->plan);
    MP_CHECK(mp_plan_check(graph, found->plan, err));
    MP_CHECK(issue_copies(request, &found->plan, err));
    if (bound->ticks < 0) return MP_OK;
    /* the copies of state have changed the plan's time, which limits the bytes that can be offloaded, so the bound is computed
     * again */
    if (without_state->has_copies) {
        bound->ticks = mp_ticks_of_all(without_state);
        MP_CHECK(mp_copies_bound(without_state, request->budget_bytes, request->tier_bytes, found->plan->ticks, 1, &with_copies,
                                 err));
        if (with_copies.ticks > bound->ticks) *bound = with_copies;
    }
    bound->ticks = mp_state_bound(graph, bound->ticks);
    return mp_answer_claim_bound(found, graph, err);
}

/* Answers a request for a graph that copies optimizer state. Plans the graph without state copies, and adds the copies
 * to its plans. */
static mp_status solve_with_state(const mp_request *request, mp_answer *answer, mp_error *err)
{
    const mp_graph *graph = request->graph;
    MP_OWNED_BY(mp_graph_free) mp_graph *without_state = NULL;
    MP_OWNED_BY(mp_plan_free) mp_plan *start = NULL;
    MP_CLEARED_BY(mp_answer_free) mp_answer found_without = {0}, found = {0};
    mp_request asked = *request;
    MP_CHECK(mp_state_check_static_bytes(request, err));
    MP_CHECK(mp_graph_without_state_copies(graph, &without_state, err));
    if (request->start) MP_CHECK(mp_state_remove_copies(graph, without_state, request->start, &start, err));
    mp_state_listener heard = {request, without_state};
    asked.graph = without_state;
    asked.problem = NULL;
    asked.start = start;
    if (request->on_offer) asked.on_offer = mp_state_hear;
    asked.on_offer_data = &heard;
    MP_CHECK(mp_solve(&asked, &found_without, err));
    found = found_without;
    /* the answer must not contain the plans of the graph without state copies, which were only converted */
    found.plan = found.smallest = found.least = NULL;
    found_without.report = NULL;
    MP_CHECK(copy_state(request, without_state, &found_without, &found, err));
    *answer = found;
    found = (mp_answer){0};
    return MP_OK;
}

mp_status mp_solve(const mp_request *request, mp_answer *answer, mp_error *err)
{
    mp_request asked;
    MP_OWNED_BY(mp_problem_free) mp_problem *own = NULL;
    MP_CHECK(mp_request_complete(request, &asked, &own, err));
    if (mp_graph_n_state_copies(request->graph)) return solve_with_state(&asked, answer, err);
    return request->graph->has_copies ? solve_in_stages(&asked, answer, err) : mp_solve_at_once(&asked, answer, err);
}
