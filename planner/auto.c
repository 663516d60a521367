/* auto.c - the portfolio: every searcher of the table that applies, each starting from what those before it have found. The one
 * that improves on plans, whatever they come from, is the last row. */
#include "planner/solver.h"

/* Integer programmes pay on small graphs only. */
enum { ILP_NODES = 48 };

/* Whether a searcher has a part in this search. */
static bool takes_part(const mp_solver *solver, const mp_request *request)
{
    if (solver->run == mp_run_auto) return false;
    if (solver->run == mp_run_none || solver->run == mp_run_anneal) return true;
    return !request->refine && (solver->run != mp_run_ilp || request->graph->n_nodes <= ILP_NODES);
}

mp_status mp_run_auto(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    for (size_t k = 0; k < mp_solver_count(); k++) {
        const mp_solver *solver = mp_solver_row(k);
        mp_error ours = {0};
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
