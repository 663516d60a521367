/* chain_blocks.c - determines the block to which each node and each storage of a training graph belongs. */
#include "planner/chain/chain.h"

#include "estimator/graph/order_rules.h"
#include "planner/order/segment_schedule.h"

/* Returns the block of a loss or backward node. It is the block of the node's forward node. If the graph names no forward node
 * for it, it is the last block that produces an input of the node. If the node reads no forward storage, it is `inherited`. */
static int place_of(const mp_chain *chain, int node, int inherited)
{
    const mp_node *n = &chain->graph->nodes[node];
    int latest = -1;
    if (n->forward_of >= 0 && chain->graph->nodes[n->forward_of].phase == MP_PHASE_FORWARD) return chain->block[n->forward_of];
    for (size_t i = 0; i < n->alternatives[0].n_reads; i++) {
        const int p = chain->graph->producer[n->alternatives[0].reads[i]];
        if (p >= 0 && chain->graph->nodes[p].phase == MP_PHASE_FORWARD && chain->block[p] > latest) latest = chain->block[p];
    }
    return latest >= 0 ? latest : inherited;
}

/* Sorts the backward nodes in the order of segment checkpointing: blocks from last to first. A node that is delayed until the
 * backward of an earlier block has begun is assigned to that earlier block. */
static mp_status order_backward(mp_chain *chain, mp_error *err)
{
    const mp_graph *graph = chain->graph;
    MP_OWNED mp_step *steps = NULL;
    size_t n = 0;
    int n_backward = 0, place = chain->n - 1;
    MP_OWNED bool *keep = mp_alloc(graph->n_storages, sizeof *keep);
    if (!keep) return MP_NO_MEMORY(err);
    MP_CHECK(mp_segment_schedule(graph, chain->block, chain->n, keep, &steps, &n, err));
    for (size_t t = 0; t < n; t++) {
        const int node = steps[t].node;
        if (graph->nodes[node].phase != MP_PHASE_LOSS && graph->nodes[node].phase != MP_PHASE_BACKWARD) continue;
        const int wish = place_of(chain, node, place);
        if (wish < place) place = wish;
        chain->block[node] = place;
        chain->backward[n_backward++] = node;
        chain->n_backward[place]++;
    }
    for (int k = chain->n - 1, at = 0; k >= 0; k--) {
        chain->backward_start[k] = at;
        at += chain->n_backward[k];
    }
    return MP_OK;
}

/* Updates, for each storage that this node uses, the first and the last block that uses it. */
static void see(mp_chain *chain, const mp_node *node, int block)
{
    const mp_graph *graph = chain->graph;
    const mp_alternative *alternative = &node->alternatives[0];
    const bool forward = node->phase == MP_PHASE_FORWARD;
    for (size_t i = 0; i < alternative->n_writes + alternative->n_adds; i++) {
        const int s = i < alternative->n_writes ? alternative->writes[i] : alternative->adds[i - alternative->n_writes];
        if (mp_storage_is_static(&graph->storages[s])) continue;
        if (chain->producer_block[s] < block) chain->producer_block[s] = block;
        if (chain->last_user[s] > block) chain->last_user[s] = block;
        if (forward && !mp_node_may_rerun(node)) chain->pinned[s] = true;
    }
    for (size_t i = 0; i < alternative->n_reads; i++) {
        const int s = alternative->reads[i], p = graph->producer[s];
        if (mp_storage_is_static(&graph->storages[s])) continue;
        if (!forward && chain->last_user[s] > block) chain->last_user[s] = block;
        if (p < 0 || graph->nodes[p].phase != MP_PHASE_FORWARD || chain->block[p] == block) continue;
        if (block != chain->block[p] + 1)
            /* the reader is neither in the producer's block nor in the next, so the storage stays live across blocks */
            chain->pinned[s] = true;
        else if (forward)
            chain->crosses[s] = true;
    }
}

static void assign_storages(mp_chain *chain)
{
    const mp_graph *graph = chain->graph;
    for (size_t s = 0; s < graph->n_storages; s++) {
        chain->producer_block[s] = -1;
        chain->last_user[s] = chain->n;
    }
    mp_segment_keep_small(graph, chain->pinned);
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].phase != MP_PHASE_UPDATE) see(chain, &graph->nodes[i], chain->block[i]);
    /* A block's backward may read a storage of the previous block only if the storage is an input of the block. All other
     * storages of the previous block that the backward reads become pinned storages (live until their last read). */
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_alternative *alternative = &graph->nodes[i].alternatives[0];
        if (graph->nodes[i].phase != MP_PHASE_LOSS && graph->nodes[i].phase != MP_PHASE_BACKWARD) continue;
        for (size_t k = 0; k < alternative->n_reads; k++) {
            const int s = alternative->reads[k], p = graph->producer[s];
            if (p < 0 || graph->nodes[p].phase != MP_PHASE_FORWARD || mp_storage_is_static(&graph->storages[s])) continue;
            if (chain->block[p] < chain->block[i] && !chain->crosses[s]) chain->pinned[s] = true;
        }
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_alternative *alternative = &graph->nodes[i].alternatives[0];
        if (graph->nodes[i].phase != MP_PHASE_UPDATE || !mp_update_order_of(graph).keeps_inputs) continue;
        for (size_t k = 0; k < alternative->n_reads; k++) chain->last_user[alternative->reads[k]] = -1;
    }
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (chain->pinned[s]) chain->crosses[s] = false;
    }
}

/* Computes, per block, the bytes of pinned storages, of outputs, and of gradients between this block and the next. */
static void add_up(mp_chain *chain)
{
    const mp_graph *graph = chain->graph;
    for (size_t s = 0; s < graph->n_storages; s++) {
        const int p = graph->producer[s], producer_block = chain->producer_block[s], last_user = chain->last_user[s];
        const int64_t bytes = graph->storages[s].bytes;
        if (producer_block < 0) continue;
        if (p < 0 || graph->nodes[p].phase != MP_PHASE_FORWARD) {
            for (int k = producer_block - 1; k >= 0 && k >= last_user; k--) chain->blocks[k].gradient_bytes += bytes;
        } else if (chain->pinned[s]) {
            for (int k = last_user < 0 ? 0 : last_user; k < chain->n; k++) chain->blocks[k].pinned_bytes += bytes;
            for (int k = producer_block; k < chain->n; k++) chain->blocks[k].first_pinned_bytes += bytes;
        } else if (chain->crosses[s]) {
            chain->blocks[producer_block].output_bytes += bytes;
        }
    }
}

static bool allocate(mp_chain *chain)
{
    const size_t n = (size_t)chain->n, n_nodes = chain->graph->n_nodes, n_storages = chain->graph->n_storages;
    chain->pool = mp_pool_new();
    chain->blocks = mp_pool_alloc(chain->pool, n, sizeof *chain->blocks);
    chain->block = mp_pool_alloc(chain->pool, n_nodes, sizeof *chain->block);
    chain->backward = mp_pool_alloc(chain->pool, n_nodes, sizeof *chain->backward);
    chain->backward_start = mp_pool_alloc(chain->pool, n, sizeof *chain->backward_start);
    chain->n_backward = mp_pool_alloc(chain->pool, n, sizeof *chain->n_backward);
    chain->producer_block = mp_pool_alloc(chain->pool, n_storages, sizeof *chain->producer_block);
    chain->last_user = mp_pool_alloc(chain->pool, n_storages, sizeof *chain->last_user);
    chain->pinned = mp_pool_alloc(chain->pool, n_storages, sizeof *chain->pinned);
    chain->crosses = mp_pool_alloc(chain->pool, n_storages, sizeof *chain->crosses);
    return !mp_pool_failed(chain->pool);
}

mp_status mp_chain_new(const mp_boundaries *boundaries, const bool *ends, mp_chain **out, mp_error *err)
{
    const mp_graph *graph = boundaries->graph;
    MP_OWNED_BY(mp_chain_free) mp_chain *chain = mp_alloc(1, sizeof *chain);
    if (!chain) return MP_NO_MEMORY(err);
    chain->graph = graph;
    chain->n = 1;
    for (int p = 0; p + 1 < boundaries->n; p++) chain->n += ends[p];
    MP_ENSURE(allocate(chain), err, MP_NOMEM, "out of memory");
    for (size_t i = 0; i < graph->n_nodes; i++) chain->block[i] = -1;
    for (int p = 0, k = 0; p < boundaries->n; p++) {
        chain->block[boundaries->node[p]] = k;
        if (ends[p] && p + 1 < boundaries->n) k++;
    }
    MP_CHECK(order_backward(chain, err));
    assign_storages(chain);
    add_up(chain);
    *out = chain;
    chain = NULL;
    return MP_OK;
}

void mp_chain_free(mp_chain *chain)
{
    if (!chain) return;
    mp_pool_free(chain->pool);
    mp_free(chain);
}
