/* auto.c - runs every other searcher of the table that applies to the graph; the best of all their plans wins. */
#include "planner/solver.h"

mp_status mp_run_auto(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    for (size_t k = 0; k < mp_solver_count(); k++) {
        const mp_solver *solver = mp_solver_row(k);
        mp_error ours = {0};
        if (solver->run == mp_run_auto || (request->refine && solver->run != mp_run_none && solver->run != mp_run_anneal))
            continue;
        const mp_status st = mp_search_delegate(search, solver, &ours);
        if (st == MP_NOT_APPLICABLE) continue;
        if (st != MP_OK) {
            if (err && err->code == MP_OK) *err = ours;
            return st;
        }
    }
    return MP_OK;
}
