#include "planner/proof.h"

int mp_proof_effort(const mp_graph *graph)
{
    const size_t n = graph->n_nodes;
    return n < 150 ? 8 : n < 500 ? 4 : n < 2500 ? 2 : n < 8000 ? 1 : 0;
}

mp_status mp_prove(const mp_graph *graph, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_options own = *options;
    mp_bound any = {0};
    own.any_order = !keep_order;
    MP_TRY(mp_bound_within(graph, budget_bytes, &own, out, err));
    if (!keep_order || out->infeasible) goto done;
    own.any_order = true;
    if (own.effort > 1) own.effort = 1; /* it is rarely the better one */
    MP_TRY(mp_bound_within(graph, budget_bytes, &own, &any, err));
    if (any.infeasible || any.ticks > out->ticks) *out = any;
done:
    return st;
}
