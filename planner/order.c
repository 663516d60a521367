#include "planner/order.h"

mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err)
{
    mp_status st = MP_OK;
    int last_forward = -1, last_backward = -1;
    bool *has_run = mp_alloc(graph->n_nodes, sizeof *has_run);
    MP_REQUIRE(has_run, err, MP_NOMEM, "out of memory for %zu nodes", graph->n_nodes);
    *is_kept = true;
    for (size_t t = 0; t < n; t++) {
        const int node = steps[t].node;
        const mp_phase phase = graph->nodes[node].phase;
        int *last = phase == MP_PHASE_FORWARD ? &last_forward : &last_backward;
        if (has_run[node] || phase == MP_PHASE_UPDATE) continue;
        has_run[node] = true;
        if (node < *last) *is_kept = false;
        *last = node;
    }
done:
    mp_free(has_run);
    return st;
}
