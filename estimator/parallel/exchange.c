/* exchange.c - inserts the collectives of data-parallel and sharded training into a finished training graph.
 *
 * The node list is rebuilt with these collectives. The reduction of a bucket follows the backward node that completes the
 * bucket's gradients. The gather of a bucket precedes the first reader of the previous bucket, so that keep-all starts the
 * gather early enough. The gather of updated parameters follows the last update of the bucket. */
#include "estimator/parallel/exchange.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/list.h"
#include "estimator/graph/collective.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "estimator/parallel/buckets.h"
#include "estimator/parallel/gradient_exchanges.h"

/* Returns the bytes of one rank's shard of a storage whose total size is `bytes`. */
static int64_t part(const mp_exchange *x, int64_t bytes, bool is_spread)
{
    const int64_t n = mp_exchange_group(x, MP_DIM_SHARD, is_spread).n;
    return bytes / n + (bytes % n != 0);
}

static mp_status add_exchange_storage(mp_exchange *x, const char *format, int of, int64_t payload_bytes, mp_kind kind,
                                      int *index)
{
    mp_storage *storage;
    mp_label label;
    MP_CHECK(mp_graph_storage(x->graph, &storage, x->err));
    *index = (int)x->graph->n_storages - 1;
    storage->id = x->next_id++;
    storage->name = mp_pool_format(x->graph->pool, format, mp_storage_title(x->graph, of, &label), "");
    storage->payload_bytes = payload_bytes;
    storage->kind = kind;
    MP_ENSURE(storage->name, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    MP_ENSURE(mp_round_up(payload_bytes, x->graph->alignment, &storage->bytes), x->err, MP_INVALID,
              "'%s' has more bytes than can be counted", storage->name);
    return MP_OK;
}

static mp_status shrink(mp_exchange *x, mp_storage *storage, bool is_spread)
{
    storage->payload_bytes = part(x, storage->payload_bytes, is_spread);
    MP_ENSURE(mp_round_up(storage->payload_bytes, x->graph->alignment, &storage->bytes), x->err, MP_INVALID,
              "'%s' has more bytes than can be counted", storage->name);
    return MP_OK;
}

/* Shards one parameter according to its ZeRO stage. The storages of its state shrink to the bytes of a shard. The shards of
 * gradient and value are new storages. */
static mp_status share_out(mp_exchange *x, mp_exchanged *p)
{
    mp_graph *g = x->graph;
    const int widened = p->is_lowered ? 2 : 1;
    if (p->state >= 0) MP_CHECK(shrink(x, &g->storages[p->state], p->is_spread));
    if (p->zero >= 2 && p->gradient >= 0) {
        MP_CHECK(add_exchange_storage(x, "%s, this rank's part%s", p->gradient,
                                      part(x, widened * g->storages[p->gradient].payload_bytes, p->is_spread), MP_KIND_GRADIENT,
                                      &p->reduced));
        mp_storage_hand_over(&g->storages[p->gradient], &g->storages[p->reduced]);
        g->storages[p->gradient].kind = MP_KIND_ACTIVATION_GRADIENT;
    }
    const mp_kind kind = p->zero == 3 ? MP_KIND_PARAMETER : MP_KIND_SAVED;
    MP_CHECK(add_exchange_storage(x, "%s, this rank's part%s", p->value,
                                  part(x, widened * g->storages[p->value].payload_bytes, p->is_spread), kind, &p->shard));
    if (p->zero < 3) return MP_OK;
    g->storages[p->value].kind = MP_KIND_ACTIVATION;
    if (!x->n_again || p->is_root || p->used_again == (int)g->n_nodes) return MP_OK;
    return add_exchange_storage(x, "%s, gathered for backward%s", p->value, g->storages[p->value].payload_bytes,
                                MP_KIND_ACTIVATION, &p->again);
}

/* Appends a copy of a node of the original graph. */
static mp_status copy_node(mp_exchange *x, const mp_node *old, mp_node **out)
{
    MP_CHECK(mp_graph_node(x->graph, out, x->err));
    const int64_t id = (*out)->id;
    **out = *old;
    (*out)->id = id;
    return MP_OK;
}

/* Appends a node on the compute channel, without ticks. It reads x->reads[0..n_reads). It writes x->writes[0..n_writes), or
 * with `adds` adds to them. */
static mp_status add_node(mp_exchange *x, const char *what, const char *op, int64_t number, mp_phase phase, size_t n_reads,
                          size_t n_writes, bool adds, mp_node **out)
{
    mp_node *node;
    MP_CHECK(mp_graph_node(x->graph, &node, x->err));
    char place[24];
    snprintf(place, sizeof place, " %lld", (long long)number);
    node->name = mp_pool_format(x->graph->pool, "%s%s", what, place);
    node->op = op;
    node->phase = phase;
    mp_alternative *a = node->alternatives;
    a->n_reads = n_reads;
    a->reads = mp_graph_list(x->graph, x->reads, n_reads);
    *(adds ? &a->n_adds : &a->n_writes) = n_writes;
    *(adds ? &a->adds : &a->writes) = mp_graph_list(x->graph, x->writes, n_writes);
    MP_ENSURE(node->name && a->reads && *(adds ? &a->adds : &a->writes), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    *out = node;
    return MP_OK;
}

/* Makes a node a collective: it runs on the channel "network" and takes the time of the record. */
static mp_status run_on_network(mp_exchange *x, const mp_collective_record *record, mp_node *node)
{
    node->alternatives->channel = x->channel;
    node->alternatives->ticks = (int64_t)(mp_collective_record_seconds(record) / x->graph->tick_seconds + 0.5);
    node->collective = mp_graph_collective(x->graph, record);
    MP_ENSURE(node->collective, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    return MP_OK;
}

/* Adds a buffer for the contiguous tensors of a bucket. `of`: the first of these tensors. */
static mp_status add_buffer(mp_exchange *x, mp_bucket *b, const char *format, int of, mp_kind kind)
{
    return add_exchange_storage(x, format, of, b->bytes, kind, &b->buffer);
}

/* Adds a storage of 0 bytes that a reduction writes, if a node reads nothing else from the reduction and must wait for it: the
 * update of a static gradient, or with has_buffer the next copy-in. */
static mp_status let_wait(mp_exchange *x, const mp_bucket *b, bool has_buffer, mp_alternative *a)
{
    /* updates at the start of a step need not wait: they read gradients that were reduced in the previous step */
    const bool updates_wait = mp_update_order_of(x->graph).after_readers;
    int waits = -1;
    for (size_t j = 0; j < b->n; j++) {
        mp_exchanged *p = &x->parameters[x->by_completion[b->first + j]];
        const bool is_awaited = updates_wait && p->update >= 0 && x->graph->storages[p->reduced].persistent;
        if (!is_awaited && !has_buffer) continue;
        if (waits < 0) MP_CHECK(add_exchange_storage(x, "reduction of %s and others%s", p->reduced, 0, MP_KIND_SAVED, &waits));
        if (is_awaited) p->reduction = waits;
    }
    x->last_reduction = has_buffer ? waits : -1;
    if (waits < 0) return MP_OK;
    if (a->n_writes) memcpy(x->reads, a->writes, a->n_writes * sizeof *x->reads);
    x->reads[a->n_writes++] = waits;
    MP_ENSURE(a->writes = mp_graph_list(x->graph, x->reads, a->n_writes), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    return MP_OK;
}

/* Appends the copy of a bucket's gradients to a buffer, as in FSDP2. The gradients may be freed before the reduction ends. The
 * reduction then reads the buffer. The copy waits for the previous reduction, so that one such buffer exists at a time. */
static mp_status add_copy_in(mp_exchange *x, mp_bucket *b, size_t k)
{
    mp_node *node;
    MP_CHECK(add_buffer(x, b, "reduce-scatter buffer of %s and others%s", x->reads[0], MP_KIND_ACTIVATION_GRADIENT));
    const int reduced = x->writes[0];
    x->writes[0] = b->buffer;
    size_t n_reads = b->n;
    if (x->last_reduction >= 0) x->reads[n_reads++] = x->last_reduction;
    MP_CHECK(add_node(x, "copy-in", "CopyIn", (int64_t)k, MP_PHASE_BACKWARD, n_reads, 1, false, &node));
    x->reads[0] = b->buffer;
    x->writes[0] = reduced;
    return MP_OK;
}

/* Appends the reduction of a bucket of gradients over the ranks: in place, or to this rank's shards. */
static mp_status add_reduction(mp_exchange *x, size_t k)
{
    mp_bucket *b = &x->sent[k];
    mp_node *node;
    const mp_rank_group shards = mp_exchange_group(x, MP_DIM_SHARD, b->is_spread),
                        replicas = mp_exchange_group(x, MP_DIM_DP, b->is_spread);
    const bool is_apart = b->zero >= 2, is_torch = x->ranks->rules == MP_RULES_PYTORCH, has_buffer = is_torch && is_apart;
    mp_collective_record r = {.once = b->zero < 2, .member = -1, .n_moved = b->n};
    for (size_t j = 0; j < b->n; j++) {
        const mp_exchanged *p = &x->parameters[x->by_completion[b->first + j]];
        x->reads[j] = p->gradient;
        x->writes[j] = p->reduced;
    }
    MP_ENSURE(r.wholes = mp_graph_list(x->graph, x->reads, b->n), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    if (has_buffer) MP_CHECK(add_copy_in(x, b, k));
    const int64_t left = part(x, b->bytes, b->is_spread);
    const mp_rank_group parts = mp_mesh_group(&x->ranks->mesh, MP_DIM_TP);
    if (is_apart) r.parts = x->writes;
    if (b->zero)
        mp_collective_add(&r, &x->ranks->network, x->ranks->algorithm, MP_REDUCE_SCATTER, MP_DIM_SHARD, shards, b->bytes);
    if (replicas.n > 1)
        mp_collective_add(&r, &x->ranks->network, x->ranks->algorithm, MP_ALL_REDUCE, MP_DIM_DP, replicas, left);
    if (b->is_part) mp_collective_add(&r, &x->ranks->network, x->ranks->algorithm, MP_ALL_REDUCE, MP_DIM_TP, parts, left);
    MP_CHECK(add_node(x, b->zero ? "reduce-scatter" : "all-reduce", b->zero ? "ReduceScatter" : "AllReduce", (int64_t)k,
                      MP_PHASE_BACKWARD,
                      has_buffer ? 1
                      : is_apart ? b->n
                                 : 0,
                      b->n, !is_apart || b->is_staged, &node));
    MP_CHECK(run_on_network(x, &r, node));
    MP_CHECK(let_wait(x, b, has_buffer, node->alternatives));
    if (is_torch && b->zero == 1) node->alternatives->workspace_bytes = b->bytes;
    if (is_torch && !x->zero) { /* DDP copies gradients into buckets that stay allocated, so each bucket becomes a storage */
        MP_CHECK(add_buffer(x, b, "bucket of %s and others%s", x->writes[0], MP_KIND_BUFFER));
        node->alternatives->reads = mp_graph_list(x->graph, &b->buffer, 1);
        node->alternatives->n_reads = 1;
        MP_ENSURE(node->alternatives->reads, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    }
    return MP_OK;
}

/* Writes the shards of a bucket's parameters to x->reads and the gathered values to x->writes. Returns the bucket's number. */
static size_t list_gathered(mp_exchange *x, const mp_bucket *b, mp_phase phase)
{
    const bool is_again = phase == MP_PHASE_BACKWARD;
    const int *order = is_again ? x->by_use_again : phase == MP_PHASE_FORWARD ? x->by_use : x->by_completion;
    for (size_t j = 0; j < b->n; j++) {
        const mp_exchanged *p = &x->parameters[order[b->first + j]];
        x->reads[j] = p->shard;
        x->writes[j] = is_again ? p->again : p->value;
    }
    return is_again ? x->n_gathered + (size_t)(b - x->again) : (size_t)(b - x->gathered);
}

/* Appends the gather of a bucket of parameters from their shards: for forward, again for backward, or after the updates. Under
 * PyTorch's rules a gather for forward or backward writes a buffer; add_copy_out follows. */
static mp_status add_gather(mp_exchange *x, mp_bucket *b, mp_phase phase)
{
    const size_t k = list_gathered(x, b, phase);
    const bool is_torch = x->ranks->rules == MP_RULES_PYTORCH, has_buffer = is_torch && phase != MP_PHASE_UPDATE;
    mp_collective_record r = {.once = phase == MP_PHASE_UPDATE, .member = -1, .n_moved = b->n, .parts = x->reads};
    mp_node *node;
    MP_ENSURE(r.wholes = mp_graph_list(x->graph, x->writes, b->n), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    mp_collective_add(&r, &x->ranks->network, x->ranks->algorithm, MP_ALL_GATHER, MP_DIM_SHARD,
                      mp_exchange_group(x, MP_DIM_SHARD, b->is_spread), b->bytes);
    if (has_buffer) {
        MP_CHECK(add_buffer(x, b, "all-gather buffer of %s and others%s", x->writes[0], MP_KIND_ACTIVATION));
        x->writes[0] = b->buffer;
    }
    MP_CHECK(add_node(x, "all-gather", "AllGather", (int64_t)k, phase, b->n, has_buffer ? 1 : b->n, false, &node));
    MP_CHECK(run_on_network(x, &r, node));
    if (is_torch && !has_buffer) node->alternatives->workspace_bytes = b->bytes;
    return MP_OK;
}

/* Appends the copies of gathered parameters from the buffer of their gather to tensors of their own, as in FSDP2. */
static mp_status add_copy_out(mp_exchange *x, const mp_bucket *b, mp_phase phase)
{
    mp_node *node;
    if (x->ranks->rules != MP_RULES_PYTORCH) return MP_OK;
    const size_t k = list_gathered(x, b, phase);
    x->reads[0] = b->buffer;
    return add_node(x, "copy-out", "CopyOut", (int64_t)k, phase, 1, b->n, false, &node);
}

/* Changes an update so that it updates only this rank's shard of the parameter. reads[0 .. a->n_reads) is the new list of
 * storages that it reads. */
static mp_status share_update(mp_exchange *x, const mp_exchanged *p, mp_alternative *a, int *reads)
{
    a->ticks = part(x, a->ticks, p->is_spread);
    a->workspace_bytes = part(x, a->workspace_bytes, p->is_spread);
    MP_ENSURE(a->writes = mp_graph_list(x->graph, a->writes, a->n_writes), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    for (size_t k = 0; k < a->n_writes; k++)
        if (a->writes[k] == p->value) a->writes[k] = p->shard;
    for (size_t k = 0; p->zero == 3 && k < a->n_reads; k++)
        if (reads[k] == p->value) reads[k] = p->shard;
    return MP_OK;
}

static bool is_gradient(const mp_exchange *x, int storage)
{
    const int of = storage < x->n_storages ? x->of_storage[storage]
                                           : -1; /* storages with an index of n_storages or more were added by the exchange */
    return of >= 0 && x->parameters[of].gradient == storage;
}

/* True for a gradient that is not sharded, which its reduction changes in place. */
static bool stays_whole(const mp_exchange *x, int storage)
{
    return is_gradient(x, storage) && x->parameters[x->of_storage[storage]].zero < 2;
}

/* Changes a node that writes a gradient to a node that adds to it. The reduction can then be the last adder, and change the
 * gradient in place. */
static mp_status write_as_sum(mp_exchange *x, mp_node *node)
{
    bool makes_gradient = false;
    for (size_t f = 0; f < node->n_alternatives; f++)
        for (size_t k = 0; k < node->alternatives[f].n_writes; k++)
            makes_gradient |= stays_whole(x, node->alternatives[f].writes[k]);
    if (!makes_gradient) return MP_OK;
    mp_alternative *copies = mp_pool_alloc(x->graph->pool, node->n_alternatives, sizeof *copies);
    MP_ENSURE(copies, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    memcpy(copies, node->alternatives, node->n_alternatives * sizeof *copies);
    node->alternatives = copies;
    for (size_t f = 0; f < node->n_alternatives; f++) {
        mp_alternative *a = &copies[f];
        int *writes = mp_pool_alloc(x->graph->pool, a->n_writes, sizeof *writes),
            *adds = mp_pool_alloc(x->graph->pool, a->n_adds + a->n_writes, sizeof *adds);
        size_t n_writes = 0, n_adds = a->n_adds;
        MP_ENSURE(writes && adds, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
        if (n_adds) memcpy(adds, a->adds, n_adds * sizeof *adds);
        for (size_t k = 0; k < a->n_writes; k++) {
            *(stays_whole(x, a->writes[k]) ? &adds[n_adds++] : &writes[n_writes++]) = a->writes[k];
        }
        a->writes = writes;
        a->n_writes = n_writes;
        a->adds = adds;
        a->n_adds = n_adds;
    }
    return MP_OK;
}

/* In the reads of an update, or of another node after backward, replaces gradients by reduced gradients. */
static mp_status list_reader(mp_exchange *x, mp_node *node)
{
    mp_alternative *a = node->alternatives;
    int *reads = mp_pool_alloc(x->graph->pool, 2 * a->n_reads, sizeof *reads);
    size_t n = a->n_reads;
    MP_ENSURE(reads, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    memcpy(reads, a->reads, n * sizeof *reads);
    for (size_t k = 0; k < a->n_reads; k++) {
        if (!is_gradient(x, a->reads[k])) continue;
        const mp_exchanged *p = &x->parameters[x->of_storage[a->reads[k]]];
        if (p->reduction >= 0 && !mp_list_has(reads, n, p->reduction)) reads[n++] = p->reduction;
        reads[k] = p->reduced;
        if (p->zero && mp_list_has(a->writes, a->n_writes, p->value)) MP_CHECK(share_update(x, p, a, reads));
    }
    a->reads = reads;
    a->n_reads = n;
    return MP_OK;
}

/* If ranks keep only shards of a gradient, changes the sum over pipeline stages to sum this rank's shard. */
static mp_status sum_parts(mp_exchange *x, mp_node *node)
{
    mp_alternative *a = node->alternatives;
    const mp_exchanged *p = a->n_adds == 1 && is_gradient(x, a->adds[0]) ? &x->parameters[x->of_storage[a->adds[0]]] : NULL;
    if (!p || !p->is_staged || a->channel != x->channel) return MP_OK;
    mp_collective_record record = *node->collective;
    record.wholes = a->adds = mp_graph_list(x->graph, &p->reduced, 1);
    node->collective = mp_graph_collective(x->graph, &record);
    MP_ENSURE(a->adds && node->collective, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    return MP_OK;
}

/* In the reads of a backward node, replaces parameter values that were gathered for forward by the values gathered for
 * backward. */
static mp_status read_again(mp_exchange *x, mp_node *node)
{
    mp_alternative *copies = mp_pool_alloc(x->graph->pool, node->n_alternatives, sizeof *copies);
    MP_ENSURE(copies, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    memcpy(copies, node->alternatives, node->n_alternatives * sizeof *copies);
    node->alternatives = copies;
    for (size_t f = 0; f < node->n_alternatives; f++) {
        mp_alternative *a = &copies[f];
        MP_ENSURE(a->reads = mp_graph_list(x->graph, a->reads, a->n_reads), x->err, MP_NOMEM,
                  "out of memory for the graph '%s'", x->graph->name);
        for (size_t k = 0; k < a->n_reads; k++) {
            const int of = a->reads[k] < x->n_storages ? x->of_storage[a->reads[k]] : -1;
            const mp_exchanged *p = of >= 0 ? &x->parameters[of] : NULL;
            if (p && p->value == a->reads[k] && p->again >= 0) a->reads[k] = p->again;
        }
    }
    return MP_OK;
}

/* Writes the storages of gathered parameters that are live until the gradients of a bucket are complete: its own parameters,
 * and the frozen ones of its last block. Returns their number. */
static size_t list_held(const mp_exchange *x, const mp_bucket *b, int *held)
{
    const mp_exchanged *last = &x->parameters[x->by_completion[b->first + b->n - 1]];
    size_t n = 0;
    for (size_t k = 0; k < b->n + x->n_parameters - x->n_trained; k++) {
        const mp_exchanged *p = &x->parameters[k < b->n ? (size_t)x->by_completion[b->first + k] : x->n_trained + k - b->n];
        if (k >= b->n && !mp_exchange_same_block(p, last)) continue;
        held[n] = p->is_root ? p->value : p->used_again <= b->at ? p->again : -1;
        n += held[n] >= 0;
    }
    return n;
}

/* Lets the node that completes the gradients of a bucket read the parameters of list_held, because FSDP2 frees them when the
 * backward of their module has ended. */
static mp_status hold_parameters(mp_exchange *x, const mp_bucket *b, mp_node *node)
{
    MP_OWNED int *held = mp_alloc(x->n_parameters, sizeof *held);
    mp_alternative *copies = mp_pool_alloc(x->graph->pool, node->n_alternatives, sizeof *copies);
    MP_ENSURE(held && copies, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    const size_t n = list_held(x, b, held);
    memcpy(copies, node->alternatives, node->n_alternatives * sizeof *copies);
    node->alternatives = copies;
    for (size_t f = 0; f < node->n_alternatives; f++) {
        mp_alternative *a = &copies[f];
        int *reads = mp_pool_alloc(x->graph->pool, a->n_reads + n, sizeof *reads);
        MP_ENSURE(reads, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
        if (a->n_reads) memcpy(reads, a->reads, a->n_reads * sizeof *reads);
        a->reads = reads;
        for (size_t j = 0; j < n; j++)
            if (!mp_list_has(reads, a->n_reads, held[j])) reads[a->n_reads++] = held[j];
    }
    return MP_OK;
}

/* Appends a node of the original graph to the new list. Its phase decides how its reads and writes change. */
static mp_status list_node(mp_exchange *x, const mp_node *old)
{
    mp_node *node;
    MP_CHECK(copy_node(x, old, &node));
    MP_CHECK(sum_parts(x, node));
    if (old->phase == MP_PHASE_UPDATE) return old->alternatives->n_reads ? list_reader(x, node) : MP_OK;
    if (x->n_again && old->phase == MP_PHASE_BACKWARD) MP_CHECK(read_again(x, node));
    return write_as_sum(x, node);
}

/* The next buckets whose gathers for forward or backward, and whose copies from the buffer, are to be listed. */
typedef struct gathering {
    mp_bucket *buckets;
    size_t n;
    int first; /* the node of the original graph before which the first gather is listed */
    size_t gathered, copied;
} gathering;

/* Appends the gathers and copies that precede node v of the original graph. keep-all starts the gather of bucket k + 1 before
 * the first reader of bucket k, so that compute can hide the gather. The copy of bucket k is before the gather of bucket k + 1,
 * because it frees the buffer of bucket k. */
static mp_status list_gathers(mp_exchange *x, gathering *g, int v, mp_phase phase)
{
    for (;;) {
        if (g->copied < g->gathered && g->buckets[g->copied].at <= v)
            MP_CHECK(add_copy_out(x, &g->buckets[g->copied++], phase));
        else if (g->gathered < g->n && (g->gathered ? g->buckets[g->gathered - 1].at : g->first) <= v)
            MP_CHECK(add_gather(x, &g->buckets[g->gathered++], phase));
        else
            return MP_OK;
    }
}

/* Builds the new node list, which contains the collectives. */
static mp_status list_nodes(mp_exchange *x, int *number)
{
    mp_graph *g = x->graph;
    MP_OWNED mp_node *old = g->nodes;
    const size_t n = g->n_nodes;
    const bool is_updated = x->zero == 1 || x->zero == 2; /* gathers of `gathered` follow the updates */
    size_t sent = 0, gathered = 0;
    gathering forward = {.buckets = x->gathered, .n = x->zero == 3 ? x->n_gathered : 0},
              again = {.buckets = x->again, .n = x->n_again, .first = x->n_again ? x->again->at : 0};
    g->nodes = NULL;
    g->n_nodes = g->nodes_capacity = 0;
    for (int k = 0; k < (int)n; k++) {
        const int v = x->sequence[k];
        const mp_phase phase = old[v].phase;
        if (phase != MP_PHASE_UPDATE) MP_CHECK(list_gathers(x, &forward, v, MP_PHASE_FORWARD));
        if (phase == MP_PHASE_BACKWARD) MP_CHECK(list_gathers(x, &again, v, MP_PHASE_BACKWARD));
        number[v] = (int)g->n_nodes;
        MP_CHECK(list_node(x, &old[v]));
        if (old[v].forward_of >= 0) g->nodes[number[v]].forward_of = number[old[v].forward_of];
        for (; sent < x->n_sent && x->sent[sent].at <= v && phase == MP_PHASE_BACKWARD; sent++) {
            if (x->zero == 3 && x->ranks->rules == MP_RULES_PYTORCH)
                MP_CHECK(hold_parameters(x, &x->sent[sent], &g->nodes[number[v]]));
            MP_CHECK(add_reduction(x, sent));
        }
        while (is_updated && gathered < x->n_gathered && x->gathered[gathered].at <= k && phase == MP_PHASE_UPDATE)
            MP_CHECK(add_gather(x, &x->gathered[gathered++], MP_PHASE_UPDATE));
    }
    return MP_OK;
}

mp_status mp_graph_exchange(mp_graph *graph, const mp_ranks *ranks, mp_error *err)
{
    MP_OWNED int *number = mp_alloc(graph->n_nodes, sizeof *number);
    MP_ENSURE(number, err, MP_NOMEM, "out of memory for the graph '%s'", graph->name);
    MP_CHECK(mp_graph_exchange_numbered(graph, ranks, number, err));
    return mp_gradient_exchanges_issue(graph, ranks, err);
}

mp_status mp_graph_exchange_numbered(mp_graph *graph, const mp_ranks *ranks, int *number, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_exchange x = {.graph = graph,
                     .ranks = ranks,
                     .pool = pool,
                     .bucket_bytes = ranks->bucket_bytes ? ranks->bucket_bytes : MP_BUCKET_BYTES,
                     .zero = ranks->mesh.zero,
                     .n_storages = (int)graph->n_storages,
                     .last_reduction = -1,
                     .err = err};
    for (int k = 0; k < (int)graph->n_nodes; k++) number[k] = k;
    if (!mp_exchange_any(&x)) return MP_OK;
    MP_ENSURE(pool, err, MP_NOMEM, "out of memory for the graph '%s'", graph->name);
    const bool is_rank = ranks->mesh.size[MP_DIM_PP] > 1; /* the graph of a pipeline rank already has the channel "network" */
    MP_CHECK((is_rank ? mp_graph_channel_named : mp_graph_channel)(graph, "network", &x.channel, err));
    MP_CHECK(mp_exchange_list(&x));
    for (size_t k = 0; k < x.n_parameters; k++)
        if (x.parameters[k].zero) MP_CHECK(share_out(&x, &x.parameters[k]));
    MP_CHECK(list_nodes(&x, number));
    return mp_graph_finish(graph, err);
}
