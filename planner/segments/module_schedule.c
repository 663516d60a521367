/* module_schedule.c - builds the order of keep-all and inserts recomputations: when backward first needs a call of a module
 * that is wrapped in torch.utils.checkpoint, the call is recomputed. */
#include "planner/segments/module_schedule.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "planner/order/updates.h"

typedef struct schedule {
    const mp_modules *modules;
    const bool *kept; /* per node: its outputs are kept, and the node never runs again; NULL: no node is marked */
    /* per node: the call to which it belongs, of a module wrapped in torch.utils.checkpoint; -1: none. A backward node belongs
     * to the call of its forward node */
    int *call_of;
    bool *is_again; /* per call of a module: it has already been recomputed */
    mp_step *steps;
    size_t n, capacity;
} schedule;

static mp_status push(schedule *x, int node, mp_error *err)
{
    if (!mp_grow(&x->steps, &x->capacity, x->n + 1, sizeof *x->steps)) return MP_NO_MEMORY(err);
    x->steps[x->n++] = (mp_step){.node = node};
    return MP_OK;
}

static mp_status find_calls(schedule *x, const bool *chosen, mp_error *err)
{
    const mp_modules *m = x->modules;
    const mp_graph *graph = m->graph;
    x->call_of = mp_alloc(graph->n_nodes, sizeof *x->call_of);
    x->is_again = mp_alloc((size_t)m->n_calls, sizeof *x->is_again);
    if (!x->call_of || !x->is_again) return MP_NO_MEMORY(err);
    for (size_t v = 0; v < graph->n_nodes; v++) x->call_of[v] = -1;
    for (int k = 0; k < m->n_calls; k++)
        for (int p = m->calls[k].first; chosen[m->calls[k].module] && p < m->calls[k].end; p++) x->call_of[m->node[p]] = k;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase == MP_PHASE_BACKWARD && graph->nodes[v].forward_of >= 0)
            x->call_of[v] = x->call_of[graph->nodes[v].forward_of];
    return MP_OK;
}

static bool reads_saved(const mp_graph *graph, const mp_node *node)
{
    for (size_t k = 0; k < node->alternatives[0].n_reads; k++)
        if (mp_module_is_saved(&graph->storages[node->alternatives[0].reads[k]])) return true;
    return false;
}

/* Before a backward node that reads a storage of a call: recomputes the call, unless that was done before. */
static mp_status run_again(schedule *x, int node, mp_error *err)
{
    const mp_graph *graph = x->modules->graph;
    const int k = x->call_of[node];
    if (graph->nodes[node].phase != MP_PHASE_BACKWARD || k < 0 || x->is_again[k]) return MP_OK;
    if (!reads_saved(graph, &graph->nodes[node])) return MP_OK;
    x->is_again[k] = true;
    for (int p = x->modules->calls[k].first; p < x->modules->calls[k].again_end; p++) {
        const int v = x->modules->node[p];
        if (mp_node_may_rerun(&graph->nodes[v]) && !(x->kept && x->kept[v])) MP_CHECK(push(x, v, err));
    }
    return MP_OK;
}

static void clear(schedule *x)
{
    mp_free(x->call_of);
    mp_free(x->is_again);
    mp_free(x->steps);
}

mp_status mp_module_schedule(const mp_modules *modules, const bool *chosen, const bool *kept, mp_step **steps, size_t *n,
                             mp_error *err)
{
    const mp_graph *graph = modules->graph;
    MP_CLEARED_BY(clear) schedule x = {.modules = modules, .kept = kept};
    bool any = false;
    MP_OWNED mp_step *all = mp_alloc(graph->n_nodes, sizeof *all);
    if (!all) return MP_NO_MEMORY(err);
    mp_keep_all(graph, all);
    MP_CHECK(find_calls(&x, chosen, err));
    for (size_t t = 0; t < graph->n_nodes; t++) {
        const mp_phase phase = graph->nodes[all[t].node].phase;
        any = any || phase == MP_PHASE_BACKWARD;
        if (phase == MP_PHASE_UPDATE) continue;
        MP_CHECK(run_again(&x, all[t].node, err));
        MP_CHECK(push(&x, all[t].node, err));
    }
    MP_ENSURE(any, err, MP_NOT_APPLICABLE, "%s has no backward phase, so there is nothing to recompute", graph->name);
    return mp_updates_place(graph, x.steps, x.n, steps, n, err);
}

/* True if the steps from `t` on are exactly the nodes that a recomputation of this call runs. */
static bool runs_again_at(const mp_modules *m, const mp_module_call *call, const mp_step *steps, size_t n, size_t t)
{
    for (int p = call->first; p < call->again_end; p++) {
        if (!mp_node_may_rerun(&m->graph->nodes[m->node[p]])) continue;
        if (t >= n || steps[t++].node != m->node[p]) return false;
    }
    return true;
}

mp_status mp_module_schedule_read(const mp_modules *modules, const mp_step *steps, size_t n, bool *chosen, bool *is_one,
                                  mp_error *err)
{
    MP_OWNED mp_step *made = NULL;
    size_t n_made = 0;
    /* per node: index of the step of its second run; 0: it runs once */
    MP_OWNED size_t *second = mp_alloc(modules->graph->n_nodes, sizeof *second);
    MP_OWNED bool *ran = mp_alloc(modules->graph->n_nodes, sizeof *ran);
    *is_one = false;
    memset(chosen, 0, (size_t)modules->n * sizeof *chosen);
    MP_ENSURE(second && ran, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n; t++) {
        if (ran[steps[t].node] && !second[steps[t].node]) second[steps[t].node] = t;
        ran[steps[t].node] = true;
    }
    for (int k = 0; k < modules->n_calls; k++) { /* an outer call precedes the calls inside it, so it is known here whether an
                                                    outer module of the call is chosen */
        const mp_module_call *call = &modules->calls[k];
        bool is_inside = modules->modules[call->module].is_split;
        for (int m = modules->modules[call->module].parent; m >= 0; m = modules->modules[m].parent) is_inside |= chosen[m];
        int first = call->first;
        while (first < call->again_end && !mp_node_may_rerun(&modules->graph->nodes[modules->node[first]])) first++;
        if (is_inside || first >= call->again_end || !second[modules->node[first]]) continue;
        if (runs_again_at(modules, call, steps, n, second[modules->node[first]])) chosen[call->module] = true;
    }
    MP_CHECK(mp_module_schedule(modules, chosen, NULL, &made, &n_made, err));
    *is_one = n_made == n;
    for (size_t t = 0; t < n && *is_one; t++) *is_one = made[t].node == steps[t].node;
    return MP_OK;
}
