/* auto.c - the portfolio: every searcher of the table that applies, each starting from what those before it have found. The one
 * that improves on plans, whatever they come from, is the last row. */
#include "planner/solver.h"

/* Exact searches pay on tiny graphs only, integer programmes on small ones. */
enum { EXACT_NODES = 32, ILP_NODES = 48 };

/* Whether a searcher has a part in this search. */
static bool takes_part(const mp_solver *solver, const mp_request *request)
{
    if (solver->run == mp_run_auto) return false;
    if (solver->run == mp_run_none || solver->run == mp_run_anneal) return true;
    if (request->refine) return false;
    if (solver->run == mp_run_exact) return request->graph->n_nodes <= EXACT_NODES;
    return solver->run != mp_run_ilp || request->graph->n_nodes <= ILP_NODES;
}

/* What may prove its plan, so that nothing else has to run. */
static bool goes_first(const mp_solver *solver)
{
    return solver->run == mp_run_none || solver->run == mp_run_exact;
}

mp_status mp_run_auto(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    for (size_t i = 0; i < 2 * mp_solver_count(); i++) {
        const mp_solver *solver = mp_solver_row(i % mp_solver_count());
        mp_error ours = {0};
        if (goes_first(solver) != (i < mp_solver_count())) continue;
        if (!takes_part(solver, request) || (solver->run != mp_run_none && mp_search_settled(search))) continue;
        const mp_status st = mp_search_delegate(search, solver, &ours);
        if (st == MP_NOT_APPLICABLE) continue;
        if (st != MP_OK) {
            if (err && err->code == MP_OK) *err = ours;
            return st;
        }
    }
    return MP_OK;
}
