/* pipeline_flow.c - assigns the nodes to pipeline stages. Finds the tensors that cross stage boundaries, and the ranks that
 * hold each parameter. */
#include "estimator/parallel/pipeline_flow.h"

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"

enum { EVERYWHERE = -1 };

/* ---- stages of nodes ---- */

static int stage_of_block(const mp_pipeline *x, int block)
{
    int q = 0;
    while (q + 1 < x->n_stages && x->begins[q + 1] <= block) q++;
    return q;
}

/* True if all data that a forward node reads are the same for every micro-batch, such as a constant mask. Then each stage runs
 * this node itself. */
static bool runs_everywhere(const mp_pipeline *x, const mp_node *node)
{
    const mp_graph *g = x->graph;
    const mp_alternative *a = node->alternatives;
    if (node->phase != MP_PHASE_FORWARD || !mp_node_may_rerun(node) || node->flags & MP_NODE_RANDOM) return false;
    for (size_t k = 0; k < a->n_reads; k++) {
        const int s = a->reads[k], p = g->producer[s];
        if (g->storages[s].kind == MP_KIND_INPUT || (p >= 0 && x->stage[p] != EVERYWHERE)) return false;
    }
    for (size_t k = 0; k < a->n_writes; k++)
        if (mp_storage_is_static(&g->storages[a->writes[k]])) return false;
    return true;
}

/* Returns the stage of a backward node: the stage of its forward node, if it has one. Otherwise, if some inputs are gradients,
 * it is the first of the stages that produce them, because backward reaches this stage last. If no input is a gradient, it is
 * the last stage that produces an input. */
static int stage_of_backward(const mp_pipeline *x, const mp_node *node, int before)
{
    const mp_graph *g = x->graph;
    const mp_alternative *a = node->alternatives;
    int64_t made = -1, first = x->n_stages;
    if (node->phase == MP_PHASE_LOSS) return x->n_stages - 1;
    if (node->forward_of >= 0 && x->stage[node->forward_of] >= 0) return x->stage[node->forward_of];
    for (size_t k = 0; k < a->n_reads; k++) {
        const int s = a->reads[k], p = g->producer[s];
        if (p >= 0 && g->nodes[p].phase == MP_PHASE_FORWARD) made = mp_larger(made, x->stage[p]);
        if (p >= 0 && g->nodes[p].phase == MP_PHASE_BACKWARD) first = mp_smaller(first, x->stage[p]);
        for (int i = g->adders_start[s]; i < g->adders_start[s + 1]; i++) first = mp_smaller(first, x->stage[g->adders[i]]);
    }
    return (int)(first < x->n_stages ? first : made >= 0 ? made : before);
}

/* Checks that each backward node reads gradients only from its own stage or from later stages. */
static mp_status check_flow(const mp_pipeline *x, mp_error *err)
{
    const mp_graph *g = x->graph;
    for (int v = 0; v < (int)g->n_nodes; v++) {
        const mp_alternative *a = g->nodes[v].alternatives;
        for (size_t k = 0; k < a->n_reads && x->stage[v] >= 0; k++) {
            const int s = a->reads[k], p = g->producer[s];
            const bool is_forward = p >= 0 && g->nodes[p].phase == MP_PHASE_FORWARD;
            bool is_late = p >= 0 && x->stage[p] >= 0 && (is_forward ? x->stage[p] > x->stage[v] : x->stage[p] < x->stage[v]);
            for (int i = g->adders_start[s]; i < g->adders_start[s + 1]; i++) is_late |= x->stage[g->adders[i]] < x->stage[v];
            MP_ENSURE(!is_late, err, MP_UNSUPPORTED, "%s of stage %d waits for %s, which a later stage produces",
                      mp_node_label(g, v).text, x->stage[v], mp_storage_label(g, s).text);
        }
    }
    return MP_OK;
}

/* Assigns each node to a stage. `block`, per node: the block to which it belongs. */
static mp_status place_nodes(mp_pipeline *x, const int *block, mp_error *err)
{
    const mp_graph *g = x->graph;
    int before = x->n_stages - 1;
    for (int v = 0; v < (int)g->n_nodes; v++) {
        const mp_node *node = &g->nodes[v];
        x->stage[v] = EVERYWHERE;
        if (node->phase == MP_PHASE_UPDATE) continue;
        if (node->phase != MP_PHASE_FORWARD)
            x->stage[v] = before = stage_of_backward(x, node, before);
        else if (!runs_everywhere(x, node))
            x->stage[v] = stage_of_block(x, block[v]);
    }
    return check_flow(x, err);
}

/* ---- the tensors between stages ---- */

bool mp_makes_weights_alone(const mp_graph *graph, const mp_node *node)
{
    const mp_alternative *a = node->alternatives;
    for (size_t k = 0; k < a->n_writes; k++)
        if (graph->storages[a->writes[k]].kind != MP_KIND_GRADIENT) return false;
    for (size_t k = 0; k < a->n_adds; k++)
        if (graph->storages[a->adds[k]].kind != MP_KIND_GRADIENT) return false;
    return node->phase == MP_PHASE_BACKWARD && a->n_writes + a->n_adds > 0;
}

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

mp_status mp_flow_new(mp_pipeline *x, const int *block, mp_pool *pool, mp_error *err)
{
    const mp_graph *g = x->graph;
    const size_t n = g->n_storages;
    mp_flow *flow = mp_pool_alloc(pool, 1, sizeof *flow);
    x->stage = mp_pool_alloc(pool, g->n_nodes, sizeof *x->stage);
    if (!flow || !x->stage) return MP_NO_MEMORY(err);
    MP_CHECK(place_nodes(x, block, err));
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

void mp_pipeline_free(mp_pipeline *pipeline)
{
    if (pipeline) mp_pool_free(pipeline->pool);
}
