/* pipeline.c - builds the training graph of one pipeline rank from the graph of a single device (the whole graph).
 *
 * A rank holds one copy of each static storage, of each weight gradient and of each output of an update. Of every other storage
 * it holds one copy per chunk that uses it, because the chunks process different micro-batches. Activations are sent across
 * each stage boundary between their producer and a reader, gradients in the other direction. A token is a storage of zero bytes
 * that makes one node wait for another. */
#include "memplan/ranks/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/graph/collective.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "estimator/parallel/pipeline_flow.h"

typedef struct builder {
    const mp_pipeline *x;
    const mp_flow *flow;
    const mp_graph *whole;
    mp_graph *graph;
    mp_rank *out;
    mp_pool *pool;
    int rank, channel;
    int *token;       /* per gradient that ranks sum: the token that its all-reduce writes and its update reads; -1: none */
    int *of_rank;     /* per storage of the whole graph: its index in the rank's graph; -1: not in it */
    int *of_chunk;    /* per chunk and storage of the whole graph: its index in the rank's graph; -1: not in it */
    int *number;      /* per chunk and node of the whole graph: its index in the rank's graph; -1: not in it */
    int *sent;        /* per chunk: the tokens that its sends of activations and of gradients write; -1: none */
    int *list, *more; /* scratch lists of storages for the node that is being added */
    int summed;       /* token of the last transfer or all-reduce, for which the next all-reduce waits; -1: none */
    /* capacities of out->chunk, out->whole_storage and out->whole_node */
    size_t chunk_capacity, whole_capacity, nodes_capacity;
    mp_error *err;
} builder;

/* ---- adding storages and nodes to the rank's graph ---- */

static mp_status add_stage_storage(builder *b, const mp_storage *like, int chunk, int *index)
{
    mp_storage *s;
    MP_CHECK(mp_graph_storage(b->graph, &s, b->err));
    *index = (int)b->graph->n_storages - 1;
    const int64_t id = s->id;
    *s = *like;
    s->id = id;
    s->name = mp_pool_text(b->graph->pool, like->name, strlen(like->name));
    s->tensors = mp_pool_alloc(b->graph->pool, like->n_tensors, sizeof *s->tensors);
    const size_t n = b->graph->n_storages;
    const bool is_full = !mp_grow(&b->out->chunk, &b->chunk_capacity, n, sizeof *b->out->chunk) ||
                         !mp_grow(&b->out->whole_storage, &b->whole_capacity, n, sizeof *b->out->whole_storage);
    if (is_full || !s->name || (like->n_tensors && !s->tensors)) return MP_NO_MEMORY(b->err);
    for (size_t k = 0; k < like->n_tensors; k++) {
        s->tensors[k] = mp_pool_text(b->graph->pool, like->tensors[k], strlen(like->tensors[k]));
        if (!s->tensors[k]) return MP_NO_MEMORY(b->err);
    }
    b->out->chunk[*index] = chunk;
    b->out->whole_storage[*index] = -1;
    b->out->n_storages = b->graph->n_storages;
    return MP_OK;
}

/* Returns in *index the rank's copy of storage s for a chunk. If there is no copy yet, creates it. */
static mp_status storage_of(builder *b, int chunk, int s, int *index)
{
    const mp_graph *g = b->whole;
    int *here = &b->of_chunk[(size_t)chunk * g->n_storages + (size_t)s], *at = b->flow->is_of_rank[s] ? &b->of_rank[s] : here;
    if (*at < 0) {
        const int p = g->producer[s];
        const bool is_of_batch = !b->flow->is_of_rank[s] && (p < 0 || b->x->stage[p] >= 0 || b->x->for_execution);
        MP_CHECK(add_stage_storage(b, &g->storages[s], is_of_batch ? chunk : -1, at));
        b->out->whole_storage[*at] = s;
        if (b->flow->summed[s] >= 0) b->graph->storages[*at].any_sum_order = false; /* the all-reduce adds last */
        if (g->storages[s].kind == MP_KIND_INPUT) b->out->batch_bytes[chunk] += g->storages[s].bytes;
    }
    *index = *here = *at;
    return MP_OK;
}

/* Converts a list of storages to the rank's copies, created if missing. For an update, omits gradients of other ranks. */
static mp_status copy_list(builder *b, int chunk, const int *from, size_t n, bool is_update, int **out, size_t *n_out)
{
    size_t kept = 0;
    for (size_t k = 0; k < n; k++) {
        const int s = from[k];
        if (is_update && b->whole->storages[s].kind == MP_KIND_GRADIENT && b->of_rank[s] < 0) continue;
        MP_CHECK(storage_of(b, chunk, s, &b->list[kept++]));
        if (is_update && b->token[s] >= 0) b->list[kept++] = b->token[s];
    }
    *n_out = kept;
    *out = mp_graph_list(b->graph, b->list, kept);
    return *out || !kept ? MP_OK : MP_NO_MEMORY(b->err);
}

/* If a node writes a gradient that is summed over ranks, replaces the write by an addition to the gradient. */
static mp_status write_as_sum(builder *b, const mp_alternative *from, mp_alternative *a)
{
    size_t n_writes = 0, n_adds = a->n_adds;
    if (n_adds) memcpy(b->more, a->adds, n_adds * sizeof *b->more);
    for (size_t k = 0; k < from->n_writes; k++)
        *(b->flow->summed[from->writes[k]] >= 0 ? &b->more[n_adds++] : &b->list[n_writes++]) = a->writes[k];
    if (n_adds == a->n_adds) return MP_OK;
    a->writes = mp_graph_list(b->graph, b->list, n_writes);
    a->adds = mp_graph_list(b->graph, b->more, n_adds);
    a->n_writes = n_writes;
    a->n_adds = n_adds;
    return a->adds && (a->writes || !n_writes) ? MP_OK : MP_NO_MEMORY(b->err);
}

static mp_status copy_alternative(builder *b, int chunk, const mp_node *node, const mp_alternative *from, mp_alternative *a)
{
    const bool is_update = node->phase == MP_PHASE_UPDATE;
    *a = *from;
    MP_CHECK(copy_list(b, chunk, from->reads, from->n_reads, is_update, &a->reads, &a->n_reads));
    MP_CHECK(copy_list(b, chunk, from->writes, from->n_writes, false, &a->writes, &a->n_writes));
    MP_CHECK(copy_list(b, chunk, from->adds, from->n_adds, false, &a->adds, &a->n_adds));
    MP_CHECK(mp_in_place_copy(b->graph, from, &b->of_chunk[(size_t)chunk * b->whole->n_storages], a, b->err));
    if (from->algorithm) {
        a->algorithm = mp_pool_text(b->graph->pool, from->algorithm, strlen(from->algorithm));
        if (!a->algorithm) return MP_NO_MEMORY(b->err);
    }
    return is_update ? MP_OK : write_as_sum(b, from, a);
}

/* Appends a node to the rank's graph. `whole` is its index in the whole graph; -1: the whole graph has no such node. */
static mp_status append_node(builder *b, int whole, mp_node **node)
{
    MP_CHECK(mp_graph_node(b->graph, node, b->err));
    const size_t n = b->out->n_nodes = b->graph->n_nodes;
    if (!mp_grow(&b->out->whole_node, &b->nodes_capacity, n, sizeof *b->out->whole_node)) return MP_NO_MEMORY(b->err);
    b->out->whole_node[n - 1] = whole;
    return MP_OK;
}

static mp_status copy_node(builder *b, int chunk, int v)
{
    const mp_node *from = &b->whole->nodes[v];
    int *number = &b->number[(size_t)chunk * b->whole->n_nodes];
    mp_node *node;
    mp_pool *pool = b->graph->pool;
    MP_CHECK(append_node(b, v, &node));
    const int64_t id = node->id;
    number[v] = (int)b->graph->n_nodes - 1;
    *node = *from;
    node->id = id;
    node->name = mp_pool_text(pool, from->name, strlen(from->name));
    node->op = mp_pool_text(pool, from->op, strlen(from->op));
    if (from->source) node->source = mp_pool_text(pool, from->source, strlen(from->source));
    node->forward_of = from->forward_of >= 0 ? number[from->forward_of] : -1;
    mp_alternative *alternatives = node->alternatives = mp_pool_alloc(pool, from->n_alternatives, sizeof *alternatives);
    if (from->collective) node->collective = mp_graph_collective(b->graph, from->collective);
    if (!node->name || !node->op || !alternatives || (from->source && !node->source) || (from->collective && !node->collective))
        return MP_NO_MEMORY(b->err);
    for (size_t f = 0; f < from->n_alternatives; f++)
        MP_CHECK(copy_alternative(b, chunk, from, &from->alternatives[f], &alternatives[f]));
    return MP_OK;
}

/* ---- transfers between stages ---- */

/* Appends a node on the network channel that may run only once. It reads b->list[0..n_reads). It writes b->more[0..n_writes),
 * or adds to them if `adds` is true. */
static mp_status add_network_node(builder *b, const char *op, const char *name, mp_phase phase,
                                  const mp_collective_record *record, size_t n_reads, size_t n_writes, bool adds)
{
    mp_node *node;
    MP_CHECK(append_node(b, -1, &node));
    node->name = mp_pool_text(b->graph->pool, name, strlen(name));
    node->op = op;
    node->phase = phase;
    mp_node_forbid_rerun(node);
    mp_alternative *a = node->alternatives;
    a->channel = b->channel;
    a->ticks = (int64_t)(mp_collective_record_seconds(record) / b->graph->tick_seconds + 0.5);
    if (record->n_legs && !(node->collective = mp_graph_collective(b->graph, record))) return MP_NO_MEMORY(b->err);
    a->n_reads = n_reads;
    a->reads = mp_graph_list(b->graph, b->list, n_reads);
    *(adds ? &a->n_adds : &a->n_writes) = n_writes;
    *(adds ? &a->adds : &a->writes) = mp_graph_list(b->graph, b->more, n_writes);
    const bool has_lists = (a->reads || !n_reads) && (a->writes || a->adds || !n_writes);
    return node->name && has_lists ? MP_OK : MP_NO_MEMORY(b->err);
}

/* Adds a token, a storage of zero bytes that one node writes and another reads, so that the second waits for the first. */
static mp_status add_token(builder *b, const char *name, int *index)
{
    const mp_storage token = {.name = name, .kind = MP_KIND_SAVED};
    return add_stage_storage(b, &token, -1, index);
}

/* Adds the send buffer for activations. Without it two ranks deadlock if one sends an activation and the other a gradient. */
static mp_status add_send_buffer(builder *b, int q, int64_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "on its way to stage %d", q + 1);
    const mp_storage room = {
        .name = name, .kind = MP_KIND_ACTIVATION, .persistent = true, .payload_bytes = bytes, .bytes = bytes};
    return add_stage_storage(b, &room, -1, &b->out->send_buffer);
}

/* Returns the two ranks that run pipeline stage `stage` and the next one. With chunks, the last rank sends to the first. */
static mp_rank_group neighbours(const builder *b, int stage)
{
    mp_rank_group group = mp_mesh_group(&b->x->ranks->mesh, MP_DIM_PP);
    const int n = b->x->shape.n_ranks;
    if (stage % n == n - 1) group.stride *= n - 1;
    group.n = 2;
    return group;
}

/* True if a node of this chunk's stage adds to the gradient s, which the rank also receives from the next stage. */
static bool adds_here(const builder *b, int chunk, int s)
{
    const int q = chunk * b->x->shape.n_ranks + b->rank;
    for (int i = b->whole->adders_start[s]; i < b->whole->adders_start[s + 1]; i++)
        if (b->x->stage[b->whole->adders[i]] == q) return true;
    return false;
}

/* Appends the node that sends or receives all storages that cross the boundary between stages q and q + 1. If this stage adds
 * to a received gradient, the receiving node adds to it as well. */
static mp_status add_transfer(builder *b, int chunk, int q, bool is_backward, bool sends)
{
    const mp_graph *g = b->whole;
    const mp_phase phase = is_backward ? MP_PHASE_BACKWARD : MP_PHASE_FORWARD;
    int64_t bytes = 0, room = 0;
    size_t n = 0, n_sums = 0;
    char name[64];
    for (int s = 0; s < (int)g->n_storages; s++) {
        const mp_stage_crossing *c = &b->flow->crossings[s];
        if (q < c->first || q >= c->last || c->is_backward != is_backward) continue;
        int here;
        MP_CHECK(storage_of(b, chunk, s, &here));
        const bool is_sum = !sends && adds_here(b, chunk, s);
        if (is_sum) memmove(&b->more[n_sums + 1], &b->more[n_sums], (n - n_sums) * sizeof *b->more);
        b->more[is_sum ? n_sums++ : n] = here;
        b->list[n++] = here;
        bytes += g->storages[s].payload_bytes;
        room += g->storages[s].bytes;
    }
    if (!n) return MP_OK;
    mp_collective_record record = {.receives = !sends, .member = -1, .element_bytes = 1, .n_moved = n};
    mp_collective_add_send(&record, &b->x->ranks->network, b->x->ranks->algorithm, &b->x->ranks->mesh, neighbours(b, q), bytes);
    snprintf(name, sizeof name, "%s%s %s stage %d", sends ? "send" : "receive", is_backward ? " gradients" : "",
             sends ? "to" : "from", sends == is_backward ? q : q + 1);
    /* the storages are sent in the order of the whole graph, so that sender and receiver use the same order */
    record.wholes = mp_graph_list(b->graph, b->list, n);
    if (!record.wholes) return MP_NO_MEMORY(b->err);
    if (sends) {
        MP_CHECK(add_token(b, name, &b->sent[2 * chunk + is_backward]));
        b->more[0] = b->sent[2 * chunk + is_backward];
        if (is_backward) b->summed = b->more[0];
        if (b->x->for_execution && !is_backward) MP_CHECK(add_send_buffer(b, q, room));
        return add_network_node(b, "Send", name, phase, &record, n, 1, false);
    }
    size_t n_reads = 0;
    const int before[] = {is_backward ? b->sent[2 * chunk]
                          : chunk     ? b->sent[2 * (chunk - 1)]
                                      : -1,
                          is_backward && chunk + 1 < b->x->shape.n_chunks ? b->sent[2 * chunk + 3] : -1};
    for (int k = 0; k < 2; k++)
        if (before[k] >= 0) b->list[n_reads++] = before[k];
    if (is_backward && !q) { /* on rank 0 the all-reduces wait for this receive; on the other ranks they wait for the send */
        MP_CHECK(add_token(b, name, &b->summed));
        b->more[n++] = b->summed;
    }
    MP_CHECK(add_network_node(b, "Receive", name, phase, &record, n_reads, n, n_sums == n));
    if (!n_sums || n_sums == n) return MP_OK;
    mp_alternative *a = b->graph->nodes[b->graph->n_nodes - 1].alternatives; /* sums first, then plain writes */
    a->adds = a->writes;
    a->n_adds = n_sums;
    a->writes += n_sums;
    a->n_writes = n - n_sums;
    return MP_OK;
}

/* ---- postponed weight gradients (ZB-H1) ---- */

/* Appends the marker node that runs when the gradients for the previous stage are complete. Nodes that compute weight gradients
 * read the marker's token, so they run later. If the stage sends no gradient, there is no marker. */
static mp_status add_turn(builder *b, int chunk, int q)
{
    size_t n = 0;
    for (int s = 0; s < (int)b->whole->n_storages; s++) {
        const mp_stage_crossing *c = &b->flow->crossings[s];
        if (q >= c->first && q < c->last && c->is_backward) MP_CHECK(storage_of(b, chunk, s, &b->list[n++]));
    }
    if (!n) return MP_OK;
    MP_CHECK(add_token(b, "backward", &b->out->turn));
    b->more[0] = b->out->turn;
    MP_CHECK(add_network_node(b, "Turn", "end of backward", MP_PHASE_BACKWARD, &(mp_collective_record){0}, n, 1, false));
    b->graph->nodes[b->graph->n_nodes - 1].alternatives->channel = MP_CHANNEL_COMPUTE;
    return MP_OK;
}

/* Makes the last node of the rank's graph wait for the producer of `storage` (-1: none), by a read of this storage. */
static mp_status let_wait(builder *b, int storage)
{
    mp_node *node = &b->graph->nodes[b->graph->n_nodes - 1];
    for (size_t f = 0; f < node->n_alternatives && storage >= 0; f++) {
        mp_alternative *a = &node->alternatives[f];
        bool waits = false;
        for (size_t k = 0; k < a->n_reads; k++) waits |= a->reads[k] == storage;
        if (waits) continue;
        memcpy(b->list, a->reads, a->n_reads * sizeof *b->list);
        b->list[a->n_reads++] = storage;
        a->reads = mp_graph_list(b->graph, b->list, a->n_reads);
        if (!a->reads) return MP_NO_MEMORY(b->err);
    }
    return MP_OK;
}

/* Appends the all-reduce of each weight gradient that several ranks hold. It sums the gradient in place. */
static mp_status add_sums(builder *b)
{
    const mp_graph *g = b->whole;
    const mp_mesh *mesh = &b->x->ranks->mesh;
    for (int s = 0; s < (int)g->n_storages; s++) {
        const int parameter = b->flow->summed[s];
        if (parameter < 0 || b->of_rank[parameter] < 0) continue;
        const int n = b->flow->holders[parameter], first = b->flow->first[parameter];
        const int distance = (b->flow->last[parameter] - first) / (n - 1);
        mp_rank_group group = mp_mesh_group(mesh, MP_DIM_PP);
        group.n = n;
        group.stride *= distance;
        const int64_t shares = mesh->zero >= 2 ? mesh->size[MP_DIM_SHARD] : 1; /* parts after the reduce-scatter */
        const int64_t bytes = (g->storages[s].payload_bytes + shares - 1) / shares;
        mp_collective_record record = {.once = true, .member = (b->rank - first) / distance, .n_moved = 1, .wholes = b->more};
        mp_collective_add(&record, &b->x->ranks->network, b->x->ranks->algorithm, MP_ALL_REDUCE, MP_DIM_PP, group, bytes);
        mp_label label;
        char name[192];
        snprintf(name, sizeof name, "sum over stages of %s", mp_storage_title(g, s, &label));
        MP_CHECK(storage_of(b, 0, s, &b->more[0]));
        b->list[0] = b->summed;
        MP_CHECK(add_network_node(b, "AllReduce", name, MP_PHASE_BACKWARD, &record, b->summed >= 0, 1, true));
        const bool is_awaited = g->storages[s].persistent && mp_update_order_of(g).after_readers;
        int token;
        MP_CHECK(add_token(b, name, &token));
        if (is_awaited) b->token[s] = token; /* the update reads this token to wait for the all-reduce */
        b->summed = token;
        mp_alternative *a = b->graph->nodes[b->graph->n_nodes - 1].alternatives;
        a->n_writes = 1;
        a->writes = mp_graph_list(b->graph, &token, 1);
        if (!a->writes) return MP_NO_MEMORY(b->err);
    }
    return MP_OK;
}

/* ---- the node list of the rank's graph ---- */

/* True if node v runs in the forward pass of stage q, or in its backward pass if is_backward. */
static bool runs_in(const builder *b, int q, int v, bool is_backward)
{
    return (b->whole->nodes[v].phase != MP_PHASE_FORWARD) == is_backward && mp_flow_needs(b->flow, q, v);
}

static mp_status add_stage(builder *b, int chunk, bool is_backward)
{
    const int q = chunk * b->x->shape.n_ranks + b->rank;
    if (is_backward ? q + 1 < b->x->n_stages : q > 0)
        MP_CHECK(add_transfer(b, chunk, is_backward ? q : q - 1, is_backward, false));
    const bool postpones = is_backward && mp_schedule_postpones(&b->x->shape, b->rank);
    for (int v = 0; v < (int)b->whole->n_nodes; v++)
        if (runs_in(b, q, v, is_backward) && !(postpones && b->flow->for_weights[v])) MP_CHECK(copy_node(b, chunk, v));
    if (postpones) MP_CHECK(add_turn(b, chunk, q - 1));
    if (is_backward ? q > 0 : q + 1 < b->x->n_stages)
        MP_CHECK(add_transfer(b, chunk, is_backward ? q - 1 : q, is_backward, true));
    for (int v = 0; v < (int)b->whole->n_nodes && postpones; v++) {
        if (!runs_in(b, q, v, is_backward) || !b->flow->for_weights[v]) continue;
        MP_CHECK(copy_node(b, chunk, v));
        MP_CHECK(let_wait(b, b->out->turn));
    }
    return MP_OK;
}

/* True if an update node runs on the rank: it updates a parameter of the rank, or no parameter at all. *is_of_all: it updates
 * no parameter, like the node that computes the global norm. */
static bool updates_here(const builder *b, const mp_node *node, bool *is_of_all)
{
    const mp_alternative *a = node->alternatives;
    bool is_here = false;
    *is_of_all = true;
    for (size_t k = 0; k < a->n_writes; k++) {
        if (b->whole->storages[a->writes[k]].kind != MP_KIND_PARAMETER) continue;
        *is_of_all = false;
        is_here |= b->of_rank[a->writes[k]] >= 0;
    }
    return is_here || *is_of_all;
}

/* Appends the updates of the rank's parameters. A node that reads the gradients of all ranks gets the rank's share of its
 * ticks. In execution such a node waits for all ranks, so it follows the rank's last transfer. */
static mp_status add_updates(builder *b)
{
    const mp_graph *g = b->whole;
    for (int v = 0; v < (int)g->n_nodes; v++) {
        const mp_node *from = &g->nodes[v];
        int64_t all = 0, here = 0;
        bool is_of_all;
        if (from->phase != MP_PHASE_UPDATE || !updates_here(b, from, &is_of_all)) continue;
        for (size_t k = 0; k < from->alternatives->n_reads; k++) {
            const int s = from->alternatives->reads[k];
            all += g->storages[s].bytes;
            if (g->storages[s].kind != MP_KIND_GRADIENT || b->of_rank[s] >= 0) here += g->storages[s].bytes;
        }
        MP_CHECK(copy_node(b, 0, v));
        mp_alternative *a = b->graph->nodes[b->graph->n_nodes - 1].alternatives;
        if (here < all) a->ticks = (int64_t)((double)a->ticks * (double)here / (double)all + 0.5);
        if (is_of_all && b->x->for_execution) MP_CHECK(let_wait(b, b->summed));
    }
    return MP_OK;
}

/* Adds a storage for the stash, if several micro-batches can be in flight at once. mp_rank_hold sets the storage's size. */
static mp_status add_held(builder *b)
{
    MP_OWNED mp_kept *one = mp_alloc((size_t)b->x->shape.n_chunks, sizeof *one);
    if (!one) return MP_NO_MEMORY(b->err);
    for (int c = 0; c < b->x->shape.n_chunks; c++) one[c] = (mp_kept){1, 1};
    MP_CHECK(mp_schedule_held_bytes(&b->x->shape, b->rank, one, b->out->held_bytes, b->err));
    const int64_t waiting = mp_rank_most_held(b->out);
    for (int c = 0; c < b->x->shape.n_chunks; c++) b->out->held_bytes[c] = 0; /* mp_rank_hold sets the sizes */
    const mp_storage held = {.name = "kept for other micro-batches", .kind = MP_KIND_ACTIVATION, .persistent = true};
    return waiting ? add_stage_storage(b, &held, -1, &b->out->held) : MP_OK;
}

static mp_status list_all(builder *b)
{
    const int n = b->x->shape.n_chunks;
    const bool updates_first = !mp_update_order_of(b->whole).after_readers;
    for (int c = 0; c < n; c++) MP_CHECK(add_stage(b, c, false));
    for (int c = n - 1; c >= 0; c--) MP_CHECK(add_stage(b, c, true));
    MP_CHECK(add_sums(b));
    const size_t n_listed = b->graph->n_nodes;
    MP_CHECK(add_updates(b));
    MP_CHECK(add_held(b));
    if (!updates_first || b->graph->n_nodes == n_listed) return MP_OK;
    mp_node *nodes = b->graph->nodes; /* the whole graph lists updates first, so the rank's updates are moved to the front */
    const size_t n_updates = b->graph->n_nodes - n_listed;
    mp_node *moved = mp_pool_alloc(b->pool, b->graph->n_nodes, sizeof *moved);
    int *moved_whole = mp_pool_alloc(b->pool, b->graph->n_nodes, sizeof *moved_whole), *whole = b->out->whole_node;
    if (!moved || !moved_whole) return MP_NO_MEMORY(b->err);
    memcpy(moved, &nodes[n_listed], n_updates * sizeof *moved);
    memcpy(&moved[n_updates], nodes, n_listed * sizeof *moved);
    memcpy(moved_whole, &whole[n_listed], n_updates * sizeof *moved_whole);
    memcpy(&moved_whole[n_updates], whole, n_listed * sizeof *moved_whole);
    for (size_t v = 0; v < b->graph->n_nodes; v++) {
        nodes[v] = moved[v];
        whole[v] = moved_whole[v];
        nodes[v].id = (int64_t)v;
        if (nodes[v].forward_of >= 0) nodes[v].forward_of += (int)n_updates;
    }
    return MP_OK;
}

static mp_status prepare(builder *b)
{
    const mp_graph *g = b->whole;
    const size_t n = g->n_storages, n_chunks = (size_t)b->x->shape.n_chunks;
    b->token = mp_pool_alloc(b->pool, n, sizeof *b->token);
    b->of_rank = mp_pool_alloc(b->pool, n, sizeof *b->of_rank);
    b->of_chunk = mp_pool_alloc(b->pool, n_chunks * n, sizeof *b->of_chunk);
    b->number = mp_pool_alloc(b->pool, n_chunks * g->n_nodes, sizeof *b->number);
    b->sent = mp_pool_alloc(b->pool, 2 * n_chunks, sizeof *b->sent);
    b->list = mp_pool_alloc(b->pool, 2 * n + 2, sizeof *b->list);
    b->more = mp_pool_alloc(b->pool, 2 * n + 2, sizeof *b->more);
    b->out->batch_bytes = mp_alloc(n_chunks, sizeof *b->out->batch_bytes);
    b->out->held_bytes = mp_alloc(n_chunks, sizeof *b->out->held_bytes);
    if (mp_pool_failed(b->pool) || !b->out->batch_bytes || !b->out->held_bytes) return MP_NO_MEMORY(b->err);
    for (size_t s = 0; s < n; s++) b->of_rank[s] = b->token[s] = -1;
    for (size_t k = 0; k < n_chunks * n; k++) b->of_chunk[k] = -1;
    for (size_t k = 0; k < n_chunks * g->n_nodes; k++) b->number[k] = -1;
    for (size_t k = 0; k < 2 * n_chunks; k++) b->sent[k] = -1;
    return MP_OK;
}

mp_status mp_pipeline_rank_graph(const mp_pipeline *pipeline, int rank, mp_rank *out, mp_error *err)
{
    MP_CLEARED_BY(mp_rank_free)
    mp_rank made = {.shape = pipeline->shape, .rank = rank, .held = -1, .send_buffer = -1, .turn = -1};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    builder b = {.x = pipeline,
                 .flow = pipeline->flow,
                 .whole = pipeline->graph,
                 .out = &made,
                 .pool = pool,
                 .rank = rank,
                 .summed = -1,
                 .err = err};
    MP_CHECK(mp_graph_like(pipeline->graph, &made.graph, err));
    b.graph = made.graph;
    MP_CHECK(mp_graph_channel(made.graph, "network", &b.channel, err));
    MP_CHECK(prepare(&b));
    MP_CHECK(list_all(&b));
    MP_CHECK(mp_graph_finish(made.graph, err));
    *out = made;
    made = (mp_rank){0};
    return MP_OK;
}
