/* pipeline.c - cuts a network into pipeline stages and assigns each node to a stage. */
#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "planner/parallel/loads.h"
#include "planner/parallel/pipeline_flow.h"
#include "planner/parallel/stages.h"

enum { EVERYWHERE = -1 };

/* ---- stage boundaries ---- */

static mp_status take_begins(mp_pipeline *x, const int *begins, mp_error *err)
{
    for (int q = 0; q < x->n_stages; q++) {
        const bool ascends = q ? begins[q] > begins[q - 1] : begins[q] == 0;
        MP_ENSURE(ascends && begins[q] < x->n_blocks, err, MP_INVALID,
                  "stages must begin at ascending blocks, the first at 0; block %d of %d breaks this order", begins[q],
                  x->n_blocks);
        x->begins[q] = begins[q];
    }
    return MP_OK;
}

/* Chooses stage boundaries so that the slowest stage takes as little time as possible. If a rank exceeds the memory, moves some
 * of its blocks to neighbouring ranks. */
static mp_status balance(mp_pipeline *x, const mp_load *load, int64_t memory_bytes, mp_error *err)
{
    const mp_step_request request = {.load = load,
                                     .ranks = x->ranks,
                                     .schedule = x->shape.schedule,
                                     .n_chunks = x->shape.n_chunks,
                                     .n_micro_batches = x->shape.n_micro_batches,
                                     .memory_bytes = memory_bytes ? memory_bytes : INT64_MAX};
    MP_OWNED mp_stage *stages = mp_alloc((size_t)x->n_stages, sizeof *stages);
    mp_mesh_choice choice = {.stages = stages};
    bool fits;
    if (!stages) return MP_NO_MEMORY(err);
    MP_CHECK(mp_step_simulate(&request, &choice, &fits, err));
    for (int q = 0; q < x->n_stages; q++) x->begins[q] = stages[q].begin;
    return MP_OK;
}

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
    int made = -1, first = x->n_stages;
    if (node->phase == MP_PHASE_LOSS) return x->n_stages - 1;
    if (node->forward_of >= 0 && x->stage[node->forward_of] >= 0) return x->stage[node->forward_of];
    for (size_t k = 0; k < a->n_reads; k++) {
        const int s = a->reads[k], p = g->producer[s];
        if (p >= 0 && g->nodes[p].phase == MP_PHASE_FORWARD) made = mp_larger(made, x->stage[p]);
        if (p >= 0 && g->nodes[p].phase == MP_PHASE_BACKWARD) first = mp_smaller(first, x->stage[p]);
        for (int i = g->adders_start[s]; i < g->adders_start[s + 1]; i++) first = mp_smaller(first, x->stage[g->adders[i]]);
    }
    return first < x->n_stages ? first : made >= 0 ? made : before;
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

static mp_status place_nodes(mp_pipeline *x, const mp_load *load, mp_error *err)
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
            x->stage[v] = stage_of_block(x, load->block[v]);
    }
    return check_flow(x, err);
}

mp_status mp_pipeline_new(const mp_pipeline_request *r, mp_pipeline **out, mp_error *err)
{
    MP_CHECK(mp_schedule_check(&r->shape, err));
    MP_OWNED_BY(mp_load_free) mp_load *load = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_pipeline *x = mp_pool_alloc(pool, 1, sizeof *x);
    if (!x) return MP_NO_MEMORY(err);
    MP_CHECK(mp_load_of(r->graph, 1, &load, err));
    *x = (mp_pipeline){.graph = r->graph,
                       .ranks = r->ranks,
                       .shape = r->shape,
                       .is_run = r->is_run,
                       .n_blocks = load->n_blocks,
                       .n_stages = r->shape.n_ranks * r->shape.n_chunks};
    MP_ENSURE(x->n_stages <= x->n_blocks, err, MP_INVALID,
              "the network can be cut into %d block%s at most, but %d stages are requested; choose fewer stages", x->n_blocks,
              x->n_blocks == 1 ? "" : "s", x->n_stages);
    x->begins = mp_pool_alloc(pool, (size_t)x->n_stages + 1, sizeof *x->begins);
    x->stage = mp_pool_alloc(pool, r->graph->n_nodes, sizeof *x->stage);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    x->begins[x->n_stages] = x->n_blocks;
    MP_CHECK(r->begins ? take_begins(x, r->begins, err) : balance(x, load, r->memory_bytes, err));
    MP_CHECK(place_nodes(x, load, err));
    MP_CHECK(mp_flow_new(x, pool, err));
    x->pool = pool;
    pool = NULL;
    *out = x;
    return MP_OK;
}

void mp_pipeline_free(mp_pipeline *pipeline)
{
    if (pipeline) mp_pool_free(pipeline->pool);
}
