/* pipeline_flow.c - finds the tensors that cross the stage boundaries of a pipeline, and the ranks that hold each parameter. */
#include "planner/parallel/pipeline_flow.h"

#include "estimator/base/memory.h"
#include "planner/parallel/loads.h"

/* Finds the nodes that run in each stage. A node that is assigned to no stage runs in all stages that read its output. */
static void find_needed(mp_flow *flow, const mp_pipeline *x)
{
    const mp_graph *g = x->graph;
    for (int q = 0; q < x->n_stages; q++)
        for (int v = (int)g->n_nodes - 1; v >= 0; v--) {
            const mp_alternative *a = g->nodes[v].alternatives;
            if (g->nodes[v].phase == MP_PHASE_UPDATE) continue;
            bool is_needed = x->stage[v] == q;
            for (size_t k = 0; k < a->n_writes && x->stage[v] < 0; k++)
                for (int r = g->readers_start[a->writes[k]]; r < g->readers_start[a->writes[k] + 1]; r++)
                    is_needed |= mp_flow_needs(flow, q, g->readers[r]);
            flow->needed[(size_t)q * g->n_nodes + (size_t)v] = is_needed;
        }
}

/* Finds the backward nodes that only compute weight gradients, and the nodes that depend on them. No other stage waits for
 * these nodes. */
static void find_those_for_weights(mp_flow *flow)
{
    const mp_graph *g = flow->graph;
    for (int v = 0; v < (int)g->n_nodes; v++) {
        const mp_alternative *a = g->nodes[v].alternatives;
        flow->for_weights[v] = mp_makes_weights_alone(g, &g->nodes[v]);
        for (size_t k = 0; k < a->n_reads && g->nodes[v].phase == MP_PHASE_BACKWARD; k++) {
            const int s = a->reads[k], p = g->producer[s];
            flow->for_weights[v] |= p >= 0 && flow->for_weights[p];
            for (int i = g->adders_start[s]; i < g->adders_start[s + 1]; i++)
                flow->for_weights[v] |= flow->for_weights[g->adders[i]];
        }
    }
}

static void see(mp_stage_crossing *c, int stage)
{
    if (stage < c->first) c->first = stage;
    if (stage > c->last) c->last = stage;
}

/* Finds the stage boundaries that a storage crosses: all boundaries between its producer and the nodes that read it or add to
 * it. */
static mp_stage_crossing crossing_of(const mp_flow *flow, const mp_pipeline *x, int s)
{
    const mp_graph *g = x->graph;
    const int *stage = x->stage, p = g->producer[s];
    mp_stage_crossing c = {.first = x->n_stages, .last = -1};
    if (flow->is_of_rank[s] || (p >= 0 && stage[p] < 0)) return (mp_stage_crossing){0};
    c.is_backward = p < 0 || g->nodes[p].phase != MP_PHASE_FORWARD;
    if (p >= 0) see(&c, stage[p]);
    for (int r = g->readers_start[s]; r < g->readers_start[s + 1]; r++)
        if (stage[g->readers[r]] >= 0) see(&c, stage[g->readers[r]]);
    for (int i = g->adders_start[s]; i < g->adders_start[s + 1]; i++) see(&c, stage[g->adders[i]]);
    return c.last < 0 ? (mp_stage_crossing){0} : c;
}

/* Finds the ranks that read a parameter. If there are several, marks the gradient of the parameter, which must be summed over
 * these ranks. */
static void find_holders(mp_flow *flow, const mp_pipeline *x, int s)
{
    const mp_graph *g = x->graph;
    for (int rank = 0; rank < x->shape.n_ranks; rank++) {
        bool reads = false;
        for (int q = rank; q < x->n_stages; q += x->shape.n_ranks)
            for (int r = g->readers_start[s]; r < g->readers_start[s + 1]; r++) reads |= mp_flow_needs(flow, q, g->readers[r]);
        if (!reads) continue;
        if (!flow->holders[s]++) flow->first[s] = rank;
        flow->last[s] = rank;
    }
    for (int r = g->readers_start[s]; r < g->readers_start[s + 1] && flow->holders[s] > 1; r++) {
        const mp_node *node = &g->nodes[g->readers[r]];
        for (size_t k = 0; k < node->alternatives->n_reads && node->phase == MP_PHASE_UPDATE; k++) {
            const int read = node->alternatives->reads[k];
            if (g->storages[read].kind == MP_KIND_GRADIENT) flow->summed[read] = s;
        }
    }
}

mp_status mp_flow_new(mp_pipeline *x, mp_pool *pool, mp_error *err)
{
    const mp_graph *g = x->graph;
    const size_t n = g->n_storages;
    mp_flow *flow = mp_pool_alloc(pool, 1, sizeof *flow);
    if (!flow) return MP_NO_MEMORY(err);
    flow->graph = g;
    flow->needed = mp_pool_alloc(pool, (size_t)x->n_stages * g->n_nodes, sizeof *flow->needed);
    flow->for_weights = mp_pool_alloc(pool, g->n_nodes, sizeof *flow->for_weights);
    flow->is_of_rank = mp_pool_alloc(pool, n, sizeof *flow->is_of_rank);
    flow->crossings = mp_pool_alloc(pool, n, sizeof *flow->crossings);
    flow->holders = mp_pool_alloc(pool, n, sizeof *flow->holders);
    flow->first = mp_pool_alloc(pool, n, sizeof *flow->first);
    flow->last = mp_pool_alloc(pool, n, sizeof *flow->last);
    flow->summed = mp_pool_alloc(pool, n, sizeof *flow->summed);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    find_needed(flow, x);
    find_those_for_weights(flow);
    for (int s = 0; s < (int)n; s++) {
        const int p = g->producer[s];
        flow->summed[s] = -1;
        flow->is_of_rank[s] = mp_storage_is_static(&g->storages[s]) || g->storages[s].kind == MP_KIND_GRADIENT ||
                              (p >= 0 && g->nodes[p].phase == MP_PHASE_UPDATE);
    }
    for (int s = 0; s < (int)n; s++) {
        flow->crossings[s] = crossing_of(flow, x, s);
        if (g->storages[s].kind == MP_KIND_PARAMETER) find_holders(flow, x, s);
    }
    x->flow = flow;
    return MP_OK;
}
