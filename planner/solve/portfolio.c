/* portfolio.c - the table of searchers, simplest first, and two short searchers: `none` and `auto`.
 *
 * `auto` runs the searchers that suit the graph. Each starts from the best plans of the earlier ones. First run searchers that
 * prove that their plan is optimal. Searchers that are fast on graphs of any size follow, so that a search that is stopped
 * early has a plan. Annealing, which improves the plans of all other searchers, is last. Searchers that cut the list into
 * segments or blocks run only while no plan is known, because annealing then needs their schedules as a start. If a plan is
 * known, minimum cuts and annealing find the same plans without them (BENCHMARKS.md, Ablation).
 */
#include "planner/solve/portfolio.h"

#include <string.h>

#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "planner/math/tuning.h"
#include "planner/offload/copies.h"
#include "planner/order/updates.h"
#include "planner/search/search.h"
#include "planner/search/searchers.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    AUTO_ILP_NODES = 48,    /* `auto` runs `ilp` on graphs of up to 48 nodes */
    AUTO_CUT_NODES = 400,   /* if no plan fits, all searchers look for a smaller peak in graphs of up to 400 nodes */
    AUTO_NEAR_FLOOR = 2048, /* the search for a smaller peak in larger graphs ends within 1/2048 of the floor */
};
static const double AUTO_SMALLEST_SHARE = 0.1; /* part of the time limit for the smallest plan, if no plan is known */
static const double AUTO_NEAR_SHARE =
    0.002; /* the smallest plan is the start if the budget is at most this part above its peak */

/* Offers keep-all. If the graph fuses updates into backward, also offers keep-all with each update as early as possible, which
 * frees gradients earlier. */
mp_status mp_run_none(mp_search *search, mp_error *err)
{
    const mp_graph *graph = mp_search_request(search)->graph;
    MP_OWNED mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps), *fused = NULL;
    size_t n = 0;
    MP_ENSURE(steps, err, MP_NOMEM, "out of memory for a schedule of %zu steps", graph->n_nodes);
    const size_t n_all = mp_keep_all(graph, steps);
    MP_CHECK(mp_search_offer(search, steps, n_all, NULL, NULL, err));
    for (size_t t = 0; t < n_all; t++)
        if (graph->nodes[steps[t].node].phase != MP_PHASE_UPDATE) steps[n++] = steps[t];
    if (n == n_all || mp_update_order_of(graph).keeps_inputs) return MP_OK;
    /* the field `until` of a step is a position in the list that contained the updates, so it is no longer valid: all steps are
     * set to run in order */
    mp_steps_issue(steps, 0, (int)n, 0);
    MP_CHECK(mp_updates_place(graph, steps, n, &fused, &n, err));
    return mp_search_offer(search, fused, n, NULL, NULL, err);
}

static const mp_solver rows[] = {
    {.name = "none",
     .summary = "keeps everything: the baseline",
     .source = "",
     .run = mp_run_none,
     .monotone = true,
     .chooses_algorithms = true},
    {.name = "chen",
     .summary = "sqrt(n) segments and the greedy search over segment sizes, between cut tensors",
     .source = "Chen et al. 2016",
     .run = mp_run_chen,
     .monotone = true,
     .wants_phases = true},
    {.name = "segments",
     .summary = "one list of checkpoints, the user's own or the best that is found; recomputes segment by segment",
     .source = "PaddlePaddle's RecomputeOptimizer",
     .run = mp_run_segments,
     .monotone = true,
     .wants_phases = true},
    {.name = "lower-set",
     .summary = "dynamic programming over sequences of lower sets, exact where their number allows",
     .source = "Kusumoto et al. 2019",
     .run = mp_run_lower_set,
     .monotone = true,
     .wants_phases = true},
    {.name = "exact",
     .summary = "the cheapest of all schedules, for tiny networks; best first over what has run and what is held",
     .source = "Hart, Nilsson and Raphael 1968",
     .run = mp_run_exact,
     .chooses_algorithms = true},
    {.name = "ilp",
     .summary = "an integer linear programme over which tensor is held when, for small networks; starts from lower-set's plans",
     .source = "Checkmate, Jain et al. 2020",
     .run = mp_run_ilp},
    {.name = "chain",
     .summary = "dynamic programming over a chain of blocks and memory, several ways to run each block",
     .source = "Beaumont et al. 2019",
     .run = mp_run_chain,
     .monotone = true,
     .wants_phases = true},
    {.name = "lagrange",
     .former = "priced",
     .summary = "minimum cuts with memory priced decide what is stored and what made again; segments; for graphs of any size",
     .source = "Everett 1963, Picard 1976",
     .run = mp_run_lagrange,
     .wants_phases = true},
    {.name = "anneal",
     .summary = "simulated annealing over whole schedules, from the best of the others",
     .source = "",
     .run = mp_run_anneal,
     .chooses_algorithms = true},
    {.name = "cheapest-first",
     .former = "greedy-offload",
     .summary =
         "copies what takes the most time per byte to compute, if there are copies, then recomputes what takes the least",
     .source = "torchtitan's auto_perf_maxing",
     .run = mp_run_cheapest_first,
     .wants_copies = true},
    {.name = "largest-first",
     .summary = "copies everything, then keeps the largest tensors that fit",
     .source = "DeepCompile, Tanaka et al. 2025",
     .run = mp_run_largest_first,
     .wants_copies = true},
    {.name = "saved-per-second",
     .summary = "copies what is idle the longest, then recomputes what saves the most bytes per second",
     .source = "Capuchin, Peng et al. 2020",
     .run = mp_run_saved_per_second,
     .wants_copies = true},
    {.name = "pooled-memory",
     .summary = "plans recomputation with the other tiers' memory added to the device's, then copies kept tensors",
     .source = "",
     .run = mp_run_pooled_memory,
     .wants_copies = true},
    {.name = "copy-only",
     .summary = "simulated annealing that copies and never recomputes, from largest-first's plan",
     .source = "",
     .run = mp_run_copy_only,
     .chooses_algorithms = true,
     .wants_copies = true},
    {.name = "anneal-tensors",
     .former = "choices",
     .summary = "simulated annealing over what is kept, copied and recomputed, tensor by tensor",
     .source = "",
     .run = mp_run_anneal_tensors,
     .wants_copies = true},
};

size_t mp_portfolio_count(void)
{
    return sizeof rows / sizeof *rows;
}

const mp_solver *mp_portfolio_row(size_t k)
{
    return k < mp_portfolio_count() ? &rows[k] : NULL;
}

const mp_solver *mp_portfolio_find(const char *name)
{
    for (size_t k = 0; k < mp_portfolio_count(); k++)
        if (!strcmp(rows[k].name, name) || (rows[k].former && !strcmp(rows[k].former, name))) return &rows[k];
    return NULL;
}

/* Returns the row of a searcher in the table. */
static const mp_solver *row_of(mp_status (*searcher)(mp_search *search, mp_error *err))
{
    size_t k = 0;
    while (mp_portfolio_row(k)->run != searcher) k++;
    return mp_portfolio_row(k);
}

unsigned mp_portfolio_bit(mp_status (*searcher)(mp_search *search, mp_error *err))
{
    return 1u << (1 + (row_of(searcher) - mp_portfolio_row(0)));
}

mp_status mp_search_offer_plan(mp_search *search, const mp_plan *plan, mp_error *err)
{
    const char *outer = search->solver;
    const mp_solver *finder = mp_portfolio_find(plan->solver);
    if (finder) search->solver = finder->name;
    const mp_status st = mp_search_offer(search, plan->steps, plan->n_steps, NULL, NULL, err);
    search->solver = outer;
    return st;
}

static bool is_large(const mp_search *search)
{
    return mp_search_request(search)->graph->n_nodes > MP_LARGE_GRAPH_NODES;
}

/* True for searchers that cut the forward list into segments or blocks. */
static bool cuts_the_list(const mp_solver *solver)
{
    return solver->run == mp_run_chain || solver->run == mp_run_chen || solver->run == mp_run_segments ||
           solver->run == mp_run_lower_set;
}

/* True if `auto` runs a searcher in this search. Exact searches run on tiny graphs only, and integer programmes on small graphs
 * only. Searchers that cut the list run only while no plan is known; on large graphs only `chain` does. `decides`: no other
 * searcher has found a plan. The exact search then also runs on larger graphs, to decide whether a plan exists. */
static bool takes_part(const mp_solver *solver, const mp_search *search, bool decides)
{
    const mp_request *request = mp_search_request(search);
    if (solver->run == mp_run_none) return true;
    if (request->solvers_off & mp_portfolio_bit(solver->run)) return false;
    if (solver->run == mp_run_anneal) return true;
    if (request->refine) return false;
    if (solver->run == mp_run_exact) return request->graph->n_nodes <= MP_AUTO_EXACT_NODES ? !decides : decides;
    if (solver->run == mp_run_ilp) return request->graph->n_nodes <= AUTO_ILP_NODES;
    if (cuts_the_list(solver) && solver->run != mp_run_chain) {
        const size_t most = mp_search_is_infeasible(search) ? AUTO_CUT_NODES : MP_LARGE_GRAPH_NODES;
        if (request->graph->n_nodes > most)
            return false; /* on large graphs these searchers do not run, because the searcher `lagrange` finds segments faster
                           */
    }
    return !cuts_the_list(solver) || mp_search_best_ticks(search) == INT64_MAX;
}

/* Sets *out to true if no plan fits and no further search for smaller peaks is useful: the smallest peak found equals the
 * floor. On larger graphs, a peak slightly above the floor is enough, because the search takes too long. */
static mp_status is_at_floor(mp_search *search, bool *out, mp_error *err)
{
    int64_t floor_bytes;
    *out = false;
    if (!mp_search_is_infeasible(search) || !search->smallest.solver) return MP_OK;
    MP_CHECK(mp_problem_floor(search->request->problem, &floor_bytes, NULL, err));
    const int64_t above = search->request->graph->n_nodes > AUTO_CUT_NODES ? floor_bytes / AUTO_NEAR_FLOOR : 0;
    *out = search->smallest.peak_bytes - floor_bytes <= above;
    return MP_OK;
}

/* If the request has plans of `lagrange` that this search would find again, offers these plans, and sets *is_done to true. A
 * thorough search would find other plans, because its first bound is higher. */
static mp_status offer_earlier(mp_search *search, bool *is_done, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    const mp_earlier_plans *earlier = request->earlier;
    *is_done = earlier && earlier->graph == request->graph && earlier->budget_bytes == request->budget_bytes &&
               mp_search_effort(search) != MP_EFFORT_THOROUGH;
    if (!*is_done) return MP_OK;
    if (earlier->plan) MP_CHECK(mp_search_offer_plan(search, earlier->plan, err));
    return mp_search_offer_plan(search, earlier->smallest, err);
}

static mp_status run_searcher(mp_search *search, mp_status (*searcher)(mp_search *search, mp_error *err), bool decides,
                              mp_error *err)
{
    mp_error ours = {0};
    bool is_done;
    const mp_solver *solver = row_of(searcher);
    /* fraction of the time limit at which the searcher must end. It is small, to leave time for annealing. It is larger on
     * large graphs, on which annealing is slow */
    const double share = searcher == mp_run_anneal ? 1 : is_large(search) ? MP_AUTO_LARGE_SHARE : MP_AUTO_SHARE;
    if (!takes_part(solver, search, decides)) return MP_OK;
    MP_CHECK(is_at_floor(search, &is_done, err));
    if (searcher != mp_run_none && (is_done || mp_search_will_do(search) || mp_search_stopped(search))) return MP_OK;
    if (searcher == mp_run_lagrange) MP_CHECK(offer_earlier(search, &is_done, err));
    if (is_done) return MP_OK;
    const mp_status st = mp_search_delegate(search, solver, share, &ours);
    if (st == MP_OK || st == MP_NOT_APPLICABLE) return MP_OK;
    if (err && err->code == MP_OK) *err = ours;
    return st;
}

/* If no plan fits yet, finds the smallest plan, unless the request forbids it. */
static mp_status find_smallest(mp_search *search, mp_error *err)
{
    mp_request asked = *search->request;
    if (!asked.find_smallest || asked.refine || search->best.solver || mp_search_is_infeasible(search) ||
        mp_search_stopped(search))
        return MP_OK;
    if (asked.time_limit > 0) asked.time_limit *= AUTO_SMALLEST_SHARE;
    return asked.find_smallest(&asked, false, &search->least, err);
}

/* Runs annealing. If no plan fits yet, there are two cases. If the smallest plan needs hardly more than the budget, annealing
 * starts from it. Otherwise annealing starts from scratch, which finds faster plans, and starts from the smallest plan only if
 * that fails. */
static mp_status anneal(mp_search *search, mp_error *err)
{
    const double budget = (double)mp_search_request(search)->budget_bytes;
    MP_CHECK(find_smallest(search, err));
    const mp_plan *smallest = search->least;
    const bool is_near = smallest && (double)mp_plan_need(smallest) * (1 + AUTO_NEAR_SHARE) >= budget;
    if (is_near) MP_CHECK(mp_search_offer_plan(search, smallest, err));
    MP_CHECK(run_searcher(search, mp_run_anneal, false, err));
    if (!smallest || is_near || search->best.solver) return MP_OK;
    MP_CHECK(mp_search_offer_plan(search, smallest, err));
    return run_searcher(search, mp_run_anneal, false, err);
}

/* Runs all searchers except annealing. */
static mp_status run_others(mp_search *search, mp_error *err)
{
    static mp_status (*const searchers[])(mp_search * search, mp_error * err) = {
        mp_run_none, mp_run_exact, mp_run_lagrange, mp_run_ilp, mp_run_chain, mp_run_chen, mp_run_segments, mp_run_lower_set};
    for (size_t k = 0; k < sizeof searchers / sizeof *searchers; k++) MP_CHECK(run_searcher(search, searchers[k], false, err));
    return mp_search_best_ticks(search) == INT64_MAX ? run_searcher(search, mp_run_exact, true, err) : MP_OK;
}

mp_status mp_run_auto(mp_search *search, mp_error *err)
{
    MP_CHECK(run_others(search, err));
    return anneal(search, err);
}

mp_status mp_run_auto_or_none(mp_search *search, mp_error *err)
{
    MP_CHECK(run_others(search, err));
    return mp_search_best_ticks(search) == INT64_MAX ? MP_OK : run_searcher(search, mp_run_anneal, false, err);
}

mp_status mp_run_offload_rules(mp_search *search, mp_error *err)
{
    static mp_status (*const rules[])(mp_search * search, mp_error * err) = {mp_run_cheapest_first, mp_run_largest_first,
                                                                             mp_run_saved_per_second};
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) MP_CHECK(mp_search_delegate(search, row_of(rules[k]), 1, err));
    return MP_OK;
}

mp_status mp_run_copies(mp_search *search, mp_error *err)
{
    const mp_request *request = search->request;
    const int64_t ticks = mp_search_best_ticks(search);
    mp_bound bound;
    if (request->wants_bound && ticks < INT64_MAX) {
        MP_CHECK(mp_copies_bound(request->graph, request->budget_bytes, request->tier_bytes, ticks, 0, &bound, err));
        mp_search_take_bound(search, &bound);
    }
    return mp_search_delegate(search, row_of(mp_run_anneal), 1, err);
}
