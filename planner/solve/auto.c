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

/* The share of the time limit for the searchers before anneal: small, except on large graphs, where moves are slow. */
static double share_of(const mp_graph *graph)
{
    return graph->n_nodes > MP_LARGE_GRAPH_NODES ? MP_AUTO_LARGE_SHARE : MP_AUTO_SHARE;
}

/* Whether a searcher takes part in this search: exact searches pay on tiny graphs only, integer programmes on small ones. */
static bool takes_part(const mp_solver *solver, const mp_request *request)
{
    if (solver->run == mp_run_none) return true;
    if (request->solvers_off >> (1 + (solver - mp_portfolio_row(0))) & 1) return false;
    if (solver->run == mp_run_anneal) return true;
    if (request->refine) return false;
    if (solver->run == mp_run_exact) return request->graph->n_nodes <= MP_AUTO_EXACT_NODES;
    return solver->run != mp_run_ilp || request->graph->n_nodes <= MP_AUTO_ILP_NODES;
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

/* First the baseline, then a searcher that may prove its plan, which ends the search, then a quick one. */
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
    for (int k = 0; k < N_FIRST; k++) MP_TRY(run(search, row_of(first[k]), err));
    /* on large graphs cuts are ahead of all that cuts the list into segments, which is tried only if there is no plan yet */
    const bool is_large = mp_search_request(search)->graph->n_nodes > MP_LARGE_GRAPH_NODES;
    const bool is_enough = is_large && mp_search_best_ticks(search) < INT64_MAX;
    for (size_t k = 0; k < mp_portfolio_count() && !mp_search_stopped(search); k++) {
        const mp_solver *solver = mp_portfolio_row(k);
        if (!goes_first(solver) && (!is_enough || solver->run == mp_run_anneal)) MP_TRY(run(search, solver, err));
    }
done:
    return st;
}
