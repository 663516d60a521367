#include "planner/proof.h"

int mp_proof_effort(const mp_graph *graph)
{
    return graph->n_nodes < 100 ? 4 : graph->n_nodes < 2500 ? 2 : graph->n_nodes < 8000 ? 1 : 0;
}

mp_status mp_prove(const mp_graph *graph, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_options own = *options;
    mp_bound this = {0};
    own.any_order = true;
    MP_TRY(mp_bound_within(graph, budget_bytes, &own, out, err));
    if (!keep_order || out->infeasible) goto done;
    own.any_order = false;
    MP_TRY(mp_bound_within(graph, budget_bytes, &own, &this, err));
    if (this.infeasible || this.ticks > out->ticks) *out = this;
done:
    return st;
}
