/* loads.c - measures the ticks and bytes of each block of a training graph, and finds the blocks that read each parameter. */
#include "planner/parallel/loads.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/base/list.h"
#include "estimator/graph/collective.h"
#include "estimator/parallel/pipeline_flow.h"
#include "memplan/timeline.h"
#include "memplan/training.h"
#include "planner/chain/chain.h"

/* Returns the non-static bytes that are live because a node runs: its operands and its workspace. */
static int64_t bytes_of_node(const mp_graph *graph, const mp_node *node)
{
    const mp_alternative *a = node->alternatives;
    int64_t bytes = a->workspace_bytes;
    for (size_t k = 0; k < a->n_reads; k++)
        if (!mp_storage_is_static(&graph->storages[a->reads[k]])) bytes += graph->storages[a->reads[k]].bytes;
    return bytes;
}

/* For a node that computes weight gradients: adds the non-static bytes that the node reads to weights_bytes of its block. Each
 * storage counts once per block. `reader`, per storage: 1 + the last block that read it. */
static void add_waiting(mp_load *load, const mp_chain *chain, int node, int *reader)
{
    const mp_alternative *a = chain->graph->nodes[node].alternatives;
    const int block = chain->block[node];
    for (size_t k = 0; k < a->n_reads; k++) {
        const mp_storage *s = &chain->graph->storages[a->reads[k]];
        if (!mp_storage_is_static(s) && reader[a->reads[k]] != block + 1) load->blocks[block].weights_bytes += s->bytes;
        reader[a->reads[k]] = block + 1;
    }
}

static void add_node(mp_load *load, const mp_chain *chain, int node, int *reader)
{
    const mp_node *n = &chain->graph->nodes[node];
    mp_block_load *block = chain->block[node] >= 0 ? &load->blocks[chain->block[node]] : NULL;
    mp_rank_traffic sent;
    if (!block || n->phase == MP_PHASE_UPDATE) return;
    *(n->phase == MP_PHASE_FORWARD ? &block->forward_ticks : &block->backward_ticks) += n->alternatives[0].ticks;
    block->largest_bytes = mp_larger(block->largest_bytes, bytes_of_node(chain->graph, n));
    mp_traffic_of(chain->graph, &(mp_step){.node = node}, 1, 1, NULL, &sent);
    block->sent_bytes += sent.sent_bytes;
    if (!mp_makes_weights_alone(chain->graph, n)) return;
    block->weights_ticks += n->alternatives[0].ticks;
    add_waiting(load, chain, node, reader);
}

/* Adds up, per block, the outputs for later blocks that may be offloaded to the host. */
static void add_outputs(mp_load *load, const mp_chain *chain)
{
    for (int s = 0; s < (int)chain->graph->n_storages; s++) {
        if (chain->producer_block[s] < 0 || !chain->crosses[s] || chain->pinned[s]) continue;
        if (!mp_may_be_copied(chain->graph, s, MP_OFFLOAD_LEAST_BYTES)) continue;
        mp_block_load *block = &load->blocks[chain->producer_block[s]];
        block->movable_output_bytes += chain->graph->storages[s].bytes;
        block->n_movable_outputs++;
    }
}

/* True if a node uses an output of another node. */
static bool uses_output(const mp_node *node, const mp_node *of)
{
    const mp_alternative *a = node->alternatives, *made = of->alternatives;
    for (size_t k = 0; k < made->n_writes; k++)
        if (mp_list_has(a->reads, a->n_reads, made->writes[k]) || mp_list_has(a->adds, a->n_adds, made->writes[k])) return true;
    return false;
}

/* Returns the most ticks of recomputation that can run during the exchange at index t of a list of nodes. Recomputation between
 * the exchange and the first node that uses its result does not depend on the exchange. Other exchanges use the same link, so
 * they divide this interval into parts. Only the part with the most recomputation counts. */
static int64_t hidden_by(const mp_graph *graph, const mp_chain_run *run, size_t t)
{
    const mp_node *exchange = &graph->nodes[run->nodes[t]];
    int64_t ticks = 0, most = 0;
    for (size_t k = t + 1; k < run->n && !uses_output(&graph->nodes[run->nodes[k]], exchange); k++) {
        const mp_node *node = &graph->nodes[run->nodes[k]];
        if (node->phase == MP_PHASE_FORWARD) ticks += node->alternatives->ticks;
        if (node->collective && node->collective->n_legs) ticks = 0;
        most = mp_larger(most, ticks);
    }
    return mp_smaller(most, exchange->alternatives->ticks);
}

static int64_t hidden_ticks(const mp_graph *graph, const mp_chain_run *run)
{
    int64_t ticks = 0;
    for (size_t t = 0; t < run->n; t++)
        if (mp_exchanges_gradient(&graph->nodes[run->nodes[t]])) ticks += hidden_by(graph, run, t);
    return ticks;
}

/* Fills the recomputation options of block k from the options that the searcher `chain` found. In every option the bytes of the
 * block's output count as kept. */
static void add_options(const mp_chain *chain, int k, mp_block_load *block)
{
    const mp_chain_block *of = &chain->blocks[k];
    const int64_t pinned = mp_larger(of->first_pinned_bytes - (k ? of[-1].first_pinned_bytes : 0), 0);
    for (size_t i = 0; i < of->n_options; i++) {
        const mp_chain_option *o = &of->options[i];
        const int64_t held = o->kept_bytes + (o->keeps_output ? 0 : of->output_bytes);
        const int64_t peak = mp_larger(o->backward_bytes - of->pinned_bytes, o->first_need.bytes[0] - of->first_pinned_bytes);
        const mp_load_option found = {.kept_bytes = held + pinned,
                                      .extra_ticks = o->backward.ticks,
                                      .hidden_ticks = hidden_ticks(chain->graph, &o->backward),
                                      .transient_bytes = mp_larger(peak - o->kept_bytes, 0),
                                      .movable_bytes = o->movable_bytes + (o->keeps_output ? 0 : block->movable_output_bytes),
                                      .n_movable = o->n_movable + (o->keeps_output ? 0 : block->n_movable_outputs)};
        const mp_load_option *last = block->n_options ? &block->options[block->n_options - 1] : NULL;
        if (!last || found.kept_bytes < last->kept_bytes) block->options[block->n_options++] = found;
    }
    if (of->n_options) return;
    /* nothing runs between the forward and the backward of the last block, so one recomputation option is enough for it */
    block->options[block->n_options++] = (mp_load_option){.kept_bytes = pinned, .transient_bytes = of->alone_need.bytes[0]};
}

/* Finds the first and the last block with a node that reads a parameter. */
static void place_parameter(const mp_chain *chain, int storage, mp_parameter_load *p)
{
    const mp_graph *graph = chain->graph;
    for (int r = graph->readers_start[storage]; r < graph->readers_start[storage + 1]; r++) {
        const int block = chain->block[graph->readers[r]];
        if (graph->nodes[graph->readers[r]].phase == MP_PHASE_UPDATE || block < 0) continue;
        if (p->first < 0 || block < p->first) p->first = block;
        if (block > p->last) p->last = block;
    }
}

/* Appends the load of the parameter that an update node changes: the bytes of its value, gradient and optimizer state. */
static void add_update(mp_load *load, const mp_chain *chain, const mp_node *update)
{
    const mp_graph *graph = chain->graph;
    const mp_alternative *a = update->alternatives;
    mp_parameter_load p = {.update_ticks = a->ticks, .widened = 1, .first = -1, .last = -1};
    for (size_t k = 0; k < a->n_reads; k++) {
        const mp_storage *s = &graph->storages[a->reads[k]];
        if (s->kind == MP_KIND_GRADIENT) {
            p.gradient_bytes += s->bytes;
            p.is_part |= s->is_part;
            p.is_spread |= s->is_spread;
        }
        if (s->kind == MP_KIND_OPTIMIZER_STATE) p.state_bytes += s->bytes;
        if (s->kind != MP_KIND_PARAMETER) continue;
        p.value_bytes += s->bytes;
        p.widened = s->is_lowered ? 2 : 1;
        place_parameter(chain, a->reads[k], &p);
    }
    if (p.first >= 0) load->parameters[load->n_parameters++] = p;
}

/* Appends the loads of the frozen parameters. Frozen parameters are sharded like others, but have no gradient and no optimizer
 * state. `mark` is scratch, one entry per storage, all zero on entry. */
static void add_frozen(mp_load *load, const mp_chain *chain, int *mark)
{
    const mp_graph *graph = chain->graph;
    for (size_t v = 0; v < graph->n_nodes; v++)
        for (size_t k = 0; k < graph->nodes[v].alternatives->n_writes; k++) mark[graph->nodes[v].alternatives->writes[k]] = 1;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        mp_parameter_load p = {.value_bytes = graph->storages[s].bytes,
                               .widened = graph->storages[s].is_lowered ? 2 : 1,
                               .is_spread = graph->storages[s].is_spread,
                               .first = -1,
                               .last = -1};
        if (graph->storages[s].kind != MP_KIND_PARAMETER || mark[s]) continue;
        place_parameter(chain, s, &p);
        if (p.first >= 0) load->parameters[load->n_parameters++] = p;
    }
}

static mp_status fill(mp_load *load, const mp_chain *chain, mp_error *err)
{
    const mp_graph *graph = chain->graph;
    int64_t shared = 0;
    MP_OWNED int *reader = mp_alloc(graph->n_storages + 1, sizeof *reader),
                 *mark = mp_alloc(graph->n_storages + 1, sizeof *mark);
    if (!reader || !mark) return MP_NO_MEMORY(err);
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        add_node(load, chain, v, reader);
        if (graph->nodes[v].phase == MP_PHASE_UPDATE) add_update(load, chain, &graph->nodes[v]);
    }
    add_frozen(load, chain, mark);
    add_outputs(load, chain);
    for (int k = 0; k < chain->n; k++) {
        load->blocks[k].output_bytes = chain->blocks[k].output_bytes;
        add_options(chain, k, &load->blocks[k]);
    }
    for (size_t k = 0; k < load->n_parameters; k++) shared += load->parameters[k].value_bytes + load->parameters[k].state_bytes;
    /* static gradients live beyond a step; they count in other_bytes, because only values and optimizer state are subtracted */
    for (size_t s = 0; s < graph->n_storages; s++)
        if (mp_kind_is_static(graph->storages[s].kind)) load->other_bytes += graph->storages[s].bytes;
    load->other_bytes -= shared;
    return MP_OK;
}

/* Removes block boundaries except every `merged`-th one, so that `merged` neighbouring blocks become one block. */
static void merge(bool *ends, int n, int merged)
{
    int k = 0;
    for (int p = 0; p < n; p++)
        if (ends[p]) ends[p] = ++k % merged == 0;
}

mp_status mp_load_of(const mp_graph *graph, int merged, mp_load **out, mp_error *err)
{
    MP_OWNED_BY(mp_boundaries_free) mp_boundaries *boundaries = NULL;
    MP_OWNED_BY(mp_chain_free) mp_chain *chain = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    int n_ends;
    MP_CHECK(mp_boundaries_new(graph, &boundaries, err));
    bool *ends = mp_pool_alloc(pool, (size_t)boundaries->n + 1, sizeof *ends);
    MP_ENSURE(ends, err, MP_NOMEM, "no memory to measure the graph '%s'", graph->name);
    MP_CHECK(mp_chain_ends(boundaries, MP_CHAIN_CUTS, ends, &n_ends, err));
    merge(ends, boundaries->n, merged);
    MP_CHECK(mp_chain_new(boundaries, ends, &chain, err));
    MP_CHECK(mp_chain_measure(chain, err));
    mp_load *load = mp_pool_alloc(pool, 1, sizeof *load);
    MP_ENSURE(load, err, MP_NOMEM, "no memory to measure the graph '%s'", graph->name);
    *load = (mp_load){.tick_seconds = graph->tick_seconds, .n_blocks = chain->n};
    load->blocks = mp_pool_alloc(pool, (size_t)chain->n, sizeof *load->blocks);
    load->parameters = mp_pool_alloc(pool, graph->n_nodes + graph->n_storages, sizeof *load->parameters);
    load->block = mp_pool_alloc(pool, graph->n_nodes, sizeof *load->block);
    MP_ENSURE(load->blocks && load->parameters && load->block, err, MP_NOMEM, "no memory to measure the graph '%s'",
              graph->name);
    memcpy(load->block, chain->block, graph->n_nodes * sizeof *load->block);
    MP_CHECK(fill(load, chain, err));
    load->pool = pool;
    pool = NULL;
    *out = load;
    return MP_OK;
}

void mp_load_free(mp_load *load)
{
    if (load) mp_pool_free(load->pool);
}
