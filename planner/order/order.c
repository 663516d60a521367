/* order.c - decides whether a schedule keeps the list order, and converts a schedule to one that does. */
#include "planner/order/order.h"

mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err)
{
    int last_forward = -1, last_backward = -1;
    MP_OWNED bool *has_run = mp_alloc(graph->n_nodes, sizeof *has_run);
    MP_ENSURE(has_run, err, MP_NOMEM, "out of memory for %zu nodes", graph->n_nodes);
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
    return MP_OK;
}

mp_status mp_order_restore(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err)
{
    size_t at = 0;
    int next = 0; /* all forward nodes before this index of the node list have run */
    MP_OWNED bool *has_run = mp_alloc(graph->n_nodes, sizeof *has_run);
    MP_OWNED int *alternative = mp_alloc(graph->n_nodes, sizeof *alternative);
    MP_OWNED mp_step *all = mp_alloc(n + graph->n_nodes, sizeof *all);
    MP_ENSURE(has_run && alternative && all, err, MP_NOMEM, "out of memory for a schedule of %zu steps", n);
    /* visits the steps from last to first, so that finally alternative[v] is the alternative of the first run of v */
    for (size_t t = n; t-- > 0;) alternative[steps[t].node] = steps[t].alternative;
    for (size_t t = 0; t < n; t++) {
        const int node = steps[t].node;
        const bool is_forward = graph->nodes[node].phase == MP_PHASE_FORWARD;
        if (is_forward && has_run[node] && !mp_node_may_rerun(&graph->nodes[node])) continue;
        for (; is_forward && !has_run[node] && next < node; next++) {
            if (graph->nodes[next].phase != MP_PHASE_FORWARD || has_run[next]) continue;
            has_run[next] = true;
            all[at++] = (mp_step){.node = next, .alternative = alternative[next]};
        }
        has_run[node] = true;
        all[at++] = steps[t];
    }
    *out = all;
    *n_out = at;
    all = NULL;
    return MP_OK;
}
