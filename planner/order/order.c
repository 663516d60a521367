/* order.c - decides whether a schedule keeps the list order, and converts a schedule to one that does. */
#include "planner/order/order.h"

#include "estimator/graph/liveness.h"

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
        if (has_run[node] || phase == MP_PHASE_UPDATE || graph->nodes[node].flags & MP_NODE_OPTIONAL) continue;
        has_run[node] = true;
        if (node < *last) *is_kept = false;
        *last = node;
    }
    return MP_OK;
}

/* True for a node of forward that every schedule runs. Copies out are optional, and their place in the list has no meaning. */
static bool is_in_forward(const mp_node *node)
{
    return node->phase == MP_PHASE_FORWARD && !(node->flags & MP_NODE_OPTIONAL);
}

mp_status mp_order_restore(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err)
{
    size_t at = 0;
    int next = 0; /* all forward nodes before this index of the node list have run */
    MP_OWNED bool *has_run = mp_alloc(graph->n_nodes, sizeof *has_run);
    MP_OWNED int *alternative = mp_alloc(graph->n_nodes, sizeof *alternative);
    MP_OWNED int *place = mp_alloc(n + 1, sizeof *place); /* per step of the old schedule: its index in the new one */
    MP_OWNED mp_step *all = mp_alloc(n + graph->n_nodes, sizeof *all);
    MP_ENSURE(has_run && alternative && place && all, err, MP_NOMEM, "out of memory for a schedule of %zu steps", n);
    /* visits the steps from last to first, so that finally alternative[v] is the alternative of the first run of v */
    for (size_t t = n; t-- > 0;) alternative[steps[t].node] = steps[t].alternative;
    for (size_t t = 0; t < n; t++) {
        const int node = steps[t].node;
        const bool is_forward = is_in_forward(&graph->nodes[node]);
        for (; is_forward && !has_run[node] && next < node; next++) {
            if (!is_in_forward(&graph->nodes[next]) || has_run[next]) continue;
            has_run[next] = true;
            all[at++] = (mp_step){.node = next, .alternative = alternative[next]};
        }
        place[t] = (int)at;
        if (is_forward && has_run[node] && !mp_node_may_rerun(&graph->nodes[node])) continue; /* it was moved */
        has_run[node] = true;
        all[at++] = steps[t];
    }
    place[n] = (int)at;
    for (int k = 0; k < (int)at; k++)
        if (mp_step_is_issued(all[k])) mp_steps_issue(all, k, k + 1, place[mp_step_end(all, k)]);
    *out = all;
    *n_out = at;
    all = NULL;
    return MP_OK;
}
