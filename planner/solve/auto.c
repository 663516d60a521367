/* auto.c - the portfolio: every searcher of the table that is worth its time, each starting from what those before it have
 * found. First what is quick and good on graphs of any size, so that a search that is cut short has it; the one that improves
 * on plans, whatever they come from, is last.
 */
#include "planner/solve/auto.h"

#include "planner/anneal/anneal.h"
#include "planner/exact/exact.h"
#include "planner/ilp/ilp.h"
#include "planner/math/tuning.h"
#include "planner/priced/priced.h"
#include "planner/segments/none.h"
#include "planner/solve/portfolio.h"

/* Exact searches pay on tiny graphs only, integer programmes on small ones. On large ones labels by a minimum cut are ahead of
 * all that cuts the list into segments, which is tried there only if no plan is found without. */

/* What the searchers before the one that improves on plans may take of the time limit: little, except on large graphs, where
 * moves are slow. */
static double share_of(const mp_graph *graph)
{
    return graph->n_nodes > MP_LARGE_GRAPH_NODES ? MP_AUTO_LARGE_SHARE : MP_AUTO_SHARE;
}

/* Whether a searcher has a part in this search. */
static bool takes_part(const mp_solver *solver, const mp_request *request)
{
    if (solver->run == mp_run_none) return true;
    if (request->solvers_off >> (1 + (solver - mp_portfolio_row(0))) & 1) return false;
    if (solver->run == mp_run_anneal) return true;
    if (request->refine) return false;
    if (solver->run == mp_run_exact) return request->graph->n_nodes <= MP_AUTO_EXACT_NODES;
    return solver->run != mp_run_ilp || request->graph->n_nodes <= MP_AUTO_ILP_NODES;
}

/* Whether a plan within the budget is found. */
static mp_status find_out(const mp_search *search, bool *is_found, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_request *request = mp_search_request(search);
    mp_timeline *timeline = NULL;
    const mp_step *steps;
    size_t n;
    mp_search_best(search, &steps, &n);
    MP_TRY(mp_timeline_build(request->graph, steps, n, &timeline, err));
    *is_found = timeline->peak_bytes <= request->budget_bytes;
done:
    mp_timeline_free(timeline);
    return st;
}

static mp_status run(mp_search *search, const mp_solver *solver, mp_error *err)
{
    mp_error ours = {0};
    const bool improves = solver->run == mp_run_anneal;
    if (!takes_part(solver, mp_search_request(search))) return MP_OK;
    if (solver->run != mp_run_none && mp_search_settled(search)) return MP_OK;
    const mp_status st = mp_search_delegate(search, solver, improves ? 1 : share_of(mp_search_request(search)->graph), &ours);
    if (st == MP_OK || st == MP_NOT_APPLICABLE) return MP_OK;
    if (err && err->code == MP_OK) *err = ours;
    return st;
}

/* The row of a searcher. */
static const mp_solver *row_of(mp_status (*searcher)(mp_search *search, mp_error *err))
{
    size_t k = 0;
    while (mp_portfolio_row(k)->run != searcher) k++;
    return mp_portfolio_row(k);
}

/* What goes first: the baseline, what may prove its plan, so that nothing else has to run, and what is quick. */
static mp_status (*const first[])(mp_search *search, mp_error *err) = {mp_run_none, mp_run_exact, mp_run_priced};
enum { N_FIRST = sizeof first / sizeof *first };

static bool goes_first(const mp_solver *solver)
{
    for (int k = 0; k < N_FIRST; k++)
        if (first[k] == solver->run) return true;
    return false;
}

mp_status mp_run_auto(mp_search *search, mp_error *err)
{
    mp_status st = MP_OK;
    bool is_enough = false;
    for (int k = 0; k < N_FIRST; k++) MP_TRY(run(search, row_of(first[k]), err));
    if (mp_search_request(search)->graph->n_nodes > MP_LARGE_GRAPH_NODES) MP_TRY(find_out(search, &is_enough, err));
    for (size_t k = 0; k < mp_portfolio_count() && !mp_search_stopped(search); k++) {
        const mp_solver *solver = mp_portfolio_row(k);
        if (!goes_first(solver) && (!is_enough || solver->run == mp_run_anneal)) MP_TRY(run(search, solver, err));
    }
done:
    return st;
}
