/* exchange.c - puts the collectives of data parallel and sharded training into a finished training graph.
 *
 * The nodes are listed anew: a bucket's reduction stands behind the backward node that completes it, a gather before the first
 * reader of the group before its own (so that keep-all has it under way in time), and what gathers updated parameters behind
 * the last of their updates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "memplan/ranks/exchange.h"

/* A trained parameter. Storages and nodes of the old list; -1: none. */
typedef struct parameter {
    int value, gradient, state, update;
    int shard;     /* zero=3: the part of the value that is always here; zero<3: the part that the update makes */
    int reduced;   /* the gradient that the update reads: `gradient`, or the part of it that is left */
    int reduction; /* what lets the update wait for the reduction of a gradient that always lives; -1: the gradient does */
    int complete;  /* the last node that makes or adds to the gradient */
    int used;      /* the first node besides updates that reads the value */
    bool is_part;  /* the gradient is summed over tp as well */
} parameter;

/* Parameters that are sent or gathered together: list[first .. first+n). */
typedef struct bucket {
    size_t first, n;
    int64_t bytes;
    int at;       /* the old node before or behind which it is listed */
    bool is_part; /* as its parameters */
} bucket;

typedef struct exchange {
    mp_graph *graph;
    const mp_ranks *ranks;
    mp_rank_traffic traffic;
    mp_pool *pool;
    int64_t n_shards, n_replicas, bucket_bytes, next_id; /* next_id: of a storage that is added */
    int zero, channel, n_storages;                       /* storages of the graph as it was */
    size_t n_parameters, n_sent, n_gathered;
    parameter *parameters; /* in the order of their gradients' storages */
    int *by_completion, *by_use, *of_storage;
    bucket *sent, *gathered; /* of gradients, by completion; of values: zero=3 by use, else as `sent` */
    int *reads, *writes;     /* of the node that is being made */
    mp_error *err;
} exchange;

static bool has(const int *list, size_t n, int storage)
{
    for (size_t k = 0; k < n; k++)
        if (list[k] == storage) return true;
    return false;
}

/* Finds the update that reads a gradient, and what else it uses. */
static void find_update(const exchange *x, parameter *p)
{
    const mp_graph *g = x->graph;
    for (int r = g->readers_start[p->gradient]; r < g->readers_start[p->gradient + 1]; r++) {
        const mp_node *node = &g->nodes[g->readers[r]];
        const mp_alternative *a = node->alternatives;
        if (node->phase != MP_PHASE_UPDATE || !a->n_writes) continue;
        for (size_t k = 0; k < a->n_reads; k++) {
            const int s = a->reads[k];
            if (!has(a->writes, a->n_writes, s)) continue;
            if (g->storages[s].kind == MP_KIND_PARAMETER) p->value = s;
            if (g->storages[s].kind == MP_KIND_OPTIMIZER_STATE) p->state = s;
        }
        if (p->value >= 0) p->update = g->readers[r];
    }
}

static mp_status find_parameters(exchange *x)
{
    const mp_graph *g = x->graph;
    for (size_t s = 0; s < g->n_storages; s++) {
        x->of_storage[s] = -1;
        if (g->storages[s].id >= x->next_id) x->next_id = g->storages[s].id + 1;
    }
    for (int s = 0; s < (int)g->n_storages; s++) {
        const bool is_part = g->storages[s].is_part, is_sent = x->n_shards * x->n_replicas > 1 || is_part;
        if (g->storages[s].kind != MP_KIND_GRADIENT || !is_sent) continue;
        g->storages[s].is_part = false;
        parameter *p = &x->parameters[x->n_parameters];
        *p = (parameter){.value = -1,
                         .gradient = s,
                         .state = -1,
                         .update = -1,
                         .shard = -1,
                         .reduced = s,
                         .reduction = -1,
                         .complete = -1,
                         .is_part = is_part};
        p->complete = g->producer[s];
        if (mp_storage_is_sum(g, s)) p->complete = g->adders[g->adders_start[s + 1] - 1];
        if (p->complete < 0) continue; /* made by nobody: an input of the graph */
        find_update(x, p);
        MP_ENSURE(p->update >= 0 || !x->zero, x->err, MP_INVALID,
                  "the mesh shares out optimizer state, and %s has no update: choose an optimizer",
                  mp_storage_label(g, s).text);
        p->used = (int)g->n_nodes;
        for (int r = p->value < 0 ? 0 : g->readers_start[p->value]; p->value >= 0 && r < g->readers_start[p->value + 1]; r++)
            if (g->nodes[g->readers[r]].phase != MP_PHASE_UPDATE && g->readers[r] < p->used) p->used = g->readers[r];
        x->graph->storages[s].any_sum_order &= x->zero >= 2; /* the reduction in its place comes last */
        if (p->value >= 0) x->of_storage[p->value] = (int)x->n_parameters;
        x->of_storage[s] = (int)x->n_parameters++;
    }
    return MP_OK;
}

/* A parameter, and the node by which it is sorted; those that are summed over tp come last. */
typedef struct ranked {
    bool is_part;
    int at, parameter;
} ranked;

static int by_node(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->is_part != y->is_part) return x->is_part ? 1 : -1;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->parameter > y->parameter) - (x->parameter < y->parameter);
}

/* Writes the parameters in the order in which they are complete, or first used. */
static mp_status sort(exchange *x, int *order, bool by_use)
{
    MP_OWNED ranked *list = mp_alloc(x->n_parameters + 1, sizeof *list);
    MP_ENSURE(list, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    for (size_t k = 0; k < x->n_parameters; k++)
        list[k] = (ranked){.is_part = !by_use && x->parameters[k].is_part,
                           .at = by_use ? x->parameters[k].used : x->parameters[k].complete,
                           .parameter = (int)k};
    qsort(list, x->n_parameters, sizeof *list, by_node);
    for (size_t k = 0; k < x->n_parameters; k++) order[k] = list[k].parameter;
    return MP_OK;
}

static int by_place(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->first > y->first) - (x->first < y->first);
}

/* Cuts an order of parameters into buckets, and lists them in the order in which they are complete, or first used. */
static size_t cut(const exchange *x, const int *order, bool by_use, bucket *out)
{
    size_t n = 0;
    for (size_t k = 0; k < x->n_parameters; k++) {
        const parameter *p = &x->parameters[order[k]];
        const bool is_ddp = x->ranks->rules == MP_RULES_PYTORCH && !x->zero;
        const int64_t most =
            is_ddp && n == 1 && MP_FIRST_BUCKET_BYTES < x->bucket_bytes ? MP_FIRST_BUCKET_BYTES : x->bucket_bytes;
        const bool is_part = !by_use && p->is_part;
        if (!n || out[n - 1].bytes >= most || out[n - 1].is_part != is_part)
            out[n++] = (bucket){.first = k, .at = -1, .is_part = is_part};
        bucket *b = &out[n - 1];
        b->n++;
        b->bytes += x->graph->storages[by_use ? p->value : p->gradient].payload_bytes;
        b->at = by_use ? (b->n > 1 ? b->at : p->used) : p->complete;
    }
    qsort(out, n, sizeof *out, by_place);
    return n;
}

/* Returns the bytes of one rank's part. */
static int64_t part(const exchange *x, int64_t bytes)
{
    return bytes / x->n_shards + (bytes % x->n_shards != 0);
}

static mp_status add_storage(exchange *x, const char *format, int of, int64_t payload_bytes, mp_kind kind, int *index)
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
    MP_ENSURE(mp_round_up(payload_bytes, x->graph->alignment, &storage->bytes), x->err, MP_INVALID, "'%s' is too large",
              storage->name);
    return MP_OK;
}

static mp_status shrink(exchange *x, mp_storage *storage)
{
    storage->payload_bytes = part(x, storage->payload_bytes);
    MP_ENSURE(mp_round_up(storage->payload_bytes, x->graph->alignment, &storage->bytes), x->err, MP_INVALID,
              "'%s' is too large", storage->name);
    return MP_OK;
}

/* Shares out what `zero` says of one parameter: the state in its place, gradient and value as storages of their own. */
static mp_status share_out(exchange *x, parameter *p)
{
    mp_graph *g = x->graph;
    if (p->state >= 0) MP_CHECK(shrink(x, &g->storages[p->state]));
    if (x->zero >= 2) {
        MP_CHECK(add_storage(x, "%s, this rank's part%s", p->gradient, part(x, g->storages[p->gradient].payload_bytes),
                             MP_KIND_GRADIENT, &p->reduced));
        mp_storage_hand_over(&g->storages[p->gradient], &g->storages[p->reduced]);
        g->storages[p->gradient].kind = MP_KIND_ACTIVATION_GRADIENT;
    }
    const mp_kind kind = x->zero == 3 ? MP_KIND_PARAMETER : MP_KIND_SAVED;
    MP_CHECK(add_storage(x, "%s, this rank's part%s", p->value, part(x, g->storages[p->value].payload_bytes), kind, &p->shard));
    if (x->zero == 3) g->storages[p->value].kind = MP_KIND_ACTIVATION;
    return MP_OK;
}

/* Appends a copy of an old node. */
static mp_status copy_node(exchange *x, const mp_node *old, mp_node **out)
{
    MP_CHECK(mp_graph_node(x->graph, out, x->err));
    const int64_t id = (*out)->id;
    **out = *old;
    (*out)->id = id;
    return MP_OK;
}

/* Appends the node of a collective over x->reads[0..n_reads) and x->writes[0..n_writes); what it adds to, it writes. */
static mp_status add_collective(exchange *x, const char *what, const char *op, int64_t number, mp_phase phase, double seconds,
                                size_t n_reads, size_t n_writes, bool adds, mp_node **out)
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
    a->channel = x->channel;
    a->ticks = (int64_t)(seconds / x->graph->tick_seconds + 0.5);
    MP_ENSURE(node->name && a->reads && *(adds ? &a->adds : &a->writes), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    x->traffic.n_collectives++;
    x->traffic.seconds += seconds;
    *out = node;
    return MP_OK;
}

static double seconds_of(exchange *x, mp_collective collective, mp_dim dim, int64_t bytes)
{
    const mp_rank_group group = mp_mesh_group(&x->ranks->mesh, dim);
    x->traffic.sent_bytes += mp_collective_sent_bytes(collective, group.n, bytes);
    return mp_collective_seconds(&x->ranks->network, collective, x->ranks->algorithm, group, bytes);
}

/* Updates may read at any time what always lives: lets them wait for its reduction by a storage without bytes. */
static mp_status let_wait(exchange *x, const bucket *b, mp_alternative *a)
{
    int waits = -1;
    if (!mp_update_order_of(x->graph).after_readers) return MP_OK; /* updates read the gradients of the step before */
    for (size_t j = 0; j < b->n; j++) {
        parameter *p = &x->parameters[x->by_completion[b->first + j]];
        if (p->update < 0 || !x->graph->storages[p->reduced].persistent) continue;
        if (waits < 0) MP_CHECK(add_storage(x, "reduction of %s and others%s", p->reduced, 0, MP_KIND_SAVED, &waits));
        p->reduction = waits;
    }
    if (waits < 0) return MP_OK;
    if (a->n_writes) memcpy(x->reads, a->writes, a->n_writes * sizeof *x->reads);
    x->reads[a->n_writes++] = waits;
    MP_ENSURE(a->writes = mp_graph_list(x->graph, x->reads, a->n_writes), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    return MP_OK;
}

/* Sums a bucket of gradients over the ranks, in their place or into this rank's parts. */
static mp_status add_reduction(exchange *x, size_t k)
{
    const bucket *b = &x->sent[k];
    mp_node *node;
    double seconds = 0;
    for (size_t j = 0; j < b->n; j++) {
        const parameter *p = &x->parameters[x->by_completion[b->first + j]];
        x->reads[j] = p->gradient;
        x->writes[j] = p->reduced;
    }
    if (x->zero) seconds += seconds_of(x, MP_REDUCE_SCATTER, MP_DIM_SHARD, b->bytes);
    if (x->n_replicas > 1) seconds += seconds_of(x, MP_ALL_REDUCE, MP_DIM_DP, part(x, b->bytes));
    if (b->is_part) seconds += seconds_of(x, MP_ALL_REDUCE, MP_DIM_TP, part(x, b->bytes));
    const bool is_apart = x->zero >= 2;
    MP_CHECK(add_collective(x, x->zero ? "reduce-scatter" : "all-reduce", x->zero ? "ReduceScatter" : "AllReduce", (int64_t)k,
                            MP_PHASE_BACKWARD, seconds, is_apart ? b->n : 0, b->n, !is_apart, &node));
    MP_CHECK(let_wait(x, b, node->alternatives));
    if (x->ranks->rules == MP_RULES_PYTORCH && x->zero) node->alternatives->workspace_bytes = b->bytes;
    if (x->ranks->rules == MP_RULES_PYTORCH && !x->zero) { /* DDP copies gradients into buckets that stay */
        int storage;
        MP_CHECK(add_storage(x, "bucket of %s and others%s", x->writes[0], b->bytes, MP_KIND_BUFFER, &storage));
        x->reads[0] = storage;
        node->alternatives->reads = mp_graph_list(x->graph, x->reads, 1);
        node->alternatives->n_reads = 1;
        MP_ENSURE(node->alternatives->reads, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    }
    return MP_OK;
}

/* Gathers a group of parameters from their parts: for forward, or behind their updates. */
static mp_status add_gather(exchange *x, size_t k)
{
    const bucket *b = &x->gathered[k];
    const int *order = x->zero == 3 ? x->by_use : x->by_completion;
    mp_node *node;
    for (size_t j = 0; j < b->n; j++) {
        const parameter *p = &x->parameters[order[b->first + j]];
        x->reads[j] = p->shard;
        x->writes[j] = p->value;
    }
    const double seconds = seconds_of(x, MP_ALL_GATHER, MP_DIM_SHARD, b->bytes);
    MP_CHECK(add_collective(x, "all-gather", "AllGather", (int64_t)k, x->zero == 3 ? MP_PHASE_FORWARD : MP_PHASE_UPDATE,
                            seconds, b->n, b->n, false, &node));
    if (x->ranks->rules == MP_RULES_PYTORCH) node->alternatives->workspace_bytes = b->bytes;
    return MP_OK;
}

/* Lets an update work on this rank's part; reads[0 .. a->n_reads) is the list that it gets. */
static mp_status share_update(exchange *x, const parameter *p, mp_alternative *a, int *reads)
{
    a->ticks = part(x, a->ticks);
    a->workspace_bytes = part(x, a->workspace_bytes);
    MP_ENSURE(a->writes = mp_graph_list(x->graph, a->writes, a->n_writes), x->err, MP_NOMEM, "out of memory for the graph '%s'",
              x->graph->name);
    for (size_t k = 0; k < a->n_writes; k++)
        if (a->writes[k] == p->value) a->writes[k] = p->shard;
    for (size_t k = 0; x->zero == 3 && k < a->n_reads; k++)
        if (reads[k] == p->value) reads[k] = p->shard;
    return MP_OK;
}

static bool is_gradient(const exchange *x, int storage)
{
    const int of = storage < x->n_storages ? x->of_storage[storage] : -1; /* others are new */
    return of >= 0 && x->parameters[of].gradient == storage;
}

/* Lets what makes a gradient in one write add to it, so that the reduction, the last of its adders, changes it in its place. */
static mp_status write_as_sum(exchange *x, mp_node *node)
{
    bool makes_gradient = false;
    for (size_t f = 0; f < node->n_alternatives; f++)
        for (size_t k = 0; k < node->alternatives[f].n_writes; k++)
            makes_gradient |= is_gradient(x, node->alternatives[f].writes[k]);
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
            *(is_gradient(x, a->writes[k]) ? &adds[n_adds++] : &writes[n_writes++]) = a->writes[k];
        }
        a->writes = writes;
        a->n_writes = n_writes;
        a->adds = adds;
        a->n_adds = n_adds;
    }
    return MP_OK;
}

/* Lets an update, or what else reads gradients behind backward, read those that have been reduced. */
static mp_status list_reader(exchange *x, mp_node *node)
{
    mp_alternative *a = node->alternatives;
    int *reads = mp_pool_alloc(x->graph->pool, 2 * a->n_reads, sizeof *reads);
    size_t n = a->n_reads;
    MP_ENSURE(reads, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    memcpy(reads, a->reads, n * sizeof *reads);
    for (size_t k = 0; k < a->n_reads; k++) {
        if (!is_gradient(x, a->reads[k])) continue;
        const parameter *p = &x->parameters[x->of_storage[a->reads[k]]];
        if (p->reduction >= 0 && !has(reads, n, p->reduction)) reads[n++] = p->reduction;
        reads[k] = p->reduced;
        if (x->zero && has(a->writes, a->n_writes, p->value)) MP_CHECK(share_update(x, p, a, reads));
    }
    a->reads = reads;
    a->n_reads = n;
    return MP_OK;
}

/* Lists one old node, changed as its phase asks. */
static mp_status list_node(exchange *x, const mp_node *old)
{
    mp_node *node;
    MP_CHECK(copy_node(x, old, &node));
    if (old->phase == MP_PHASE_UPDATE) return old->alternatives->n_reads ? list_reader(x, node) : MP_OK;
    return x->zero < 2 ? write_as_sum(x, node) : MP_OK;
}

/* Lists all nodes anew, with the collectives among them. */
static mp_status list_nodes(exchange *x)
{
    mp_graph *g = x->graph;
    MP_OWNED mp_node *old = g->nodes;
    const size_t n = g->n_nodes;
    int *number = mp_pool_alloc(x->pool, n, sizeof *number);
    size_t sent = 0, gathered = 0;
    MP_ENSURE(number, x->err, MP_NOMEM, "out of memory for the graph '%s'", g->name);
    g->nodes = NULL;
    g->n_nodes = g->nodes_capacity = 0;
    for (int v = 0; v < (int)n; v++) {
        /* group k + 1 before the first reader of group k */
        while (x->zero == 3 && gathered < x->n_gathered && (!gathered || x->gathered[gathered - 1].at <= v) &&
               old[v].phase != MP_PHASE_UPDATE)
            MP_CHECK(add_gather(x, gathered++));
        number[v] = (int)g->n_nodes;
        MP_CHECK(list_node(x, &old[v]));
        if (old[v].forward_of >= 0) g->nodes[number[v]].forward_of = number[old[v].forward_of];
        while (sent < x->n_sent && x->sent[sent].at <= v && old[v].phase == MP_PHASE_BACKWARD)
            MP_CHECK(add_reduction(x, sent++));
        while ((x->zero == 1 || x->zero == 2) && gathered < x->n_gathered && x->gathered[gathered].at <= v &&
               old[v].phase == MP_PHASE_UPDATE)
            MP_CHECK(add_gather(x, gathered++));
    }
    return MP_OK;
}

/* Puts each group that is gathered after its updates behind the last of them. */
static void place_gathers(exchange *x)
{
    for (size_t k = 0; k < x->n_gathered && x->zero < 3; k++) {
        bucket *b = &x->gathered[k];
        b->at = k ? x->gathered[k - 1].at : -1; /* in the order of the buckets */
        for (size_t j = 0; j < b->n; j++) {
            const int update = x->parameters[x->by_completion[b->first + j]].update;
            if (update > b->at) b->at = update;
        }
    }
}

static mp_status prepare(exchange *x)
{
    const size_t n = x->graph->n_storages;
    x->parameters = mp_pool_alloc(x->pool, n, sizeof *x->parameters);
    x->of_storage = mp_pool_alloc(x->pool, n, sizeof *x->of_storage);
    x->by_completion = mp_pool_alloc(x->pool, n, sizeof *x->by_completion);
    x->by_use = mp_pool_alloc(x->pool, n, sizeof *x->by_use);
    x->sent = mp_pool_alloc(x->pool, n, sizeof *x->sent);
    x->gathered = mp_pool_alloc(x->pool, n, sizeof *x->gathered);
    x->reads = mp_pool_alloc(x->pool, n + 1, sizeof *x->reads);
    x->writes = mp_pool_alloc(x->pool, n, sizeof *x->writes);
    MP_ENSURE(!mp_pool_failed(x->pool), x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    MP_CHECK(find_parameters(x));
    MP_CHECK(sort(x, x->by_completion, false));
    x->n_sent = cut(x, x->by_completion, false, x->sent);
    if (x->zero == 3) {
        MP_CHECK(sort(x, x->by_use, true));
        x->n_gathered = cut(x, x->by_use, true, x->gathered);
    } else if (x->zero) {
        x->n_gathered = x->n_sent;
        memcpy(x->gathered, x->sent, x->n_sent * sizeof *x->gathered);
        place_gathers(x);
    }
    for (size_t k = 0; k < x->n_parameters && x->zero; k++) MP_CHECK(share_out(x, &x->parameters[k]));
    return MP_OK;
}

static bool has_parts(const mp_graph *graph)
{
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].is_part) return true;
    return false;
}

mp_status mp_graph_exchange(mp_graph *graph, const mp_ranks *ranks, mp_rank_traffic *traffic, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    exchange x = {.graph = graph,
                  .ranks = ranks,
                  .pool = pool,
                  .n_shards = ranks->mesh.size[MP_DIM_SHARD],
                  .n_replicas = ranks->mesh.size[MP_DIM_DP],
                  .bucket_bytes = ranks->bucket_bytes ? ranks->bucket_bytes : MP_BUCKET_BYTES,
                  .zero = ranks->mesh.zero,
                  .n_storages = (int)graph->n_storages,
                  .err = err};
    if (traffic) *traffic = (mp_rank_traffic){0};
    if (x.n_shards * x.n_replicas == 1 && !has_parts(graph)) return MP_OK;
    MP_ENSURE(pool, err, MP_NOMEM, "out of memory for the graph '%s'", graph->name);
    MP_CHECK(mp_graph_channel(graph, "network", &x.channel, err));
    MP_CHECK(prepare(&x));
    MP_CHECK(list_nodes(&x));
    MP_CHECK(mp_graph_finish(graph, err));
    if (traffic) *traffic = x.traffic;
    return MP_OK;
}
