/* training_offload.c - adds tiers, channels, copies out and returning alternatives to a finished training graph. */
#include <math.h>
#include <string.h>

#include "estimator/base/list.h"
#include "estimator/base/memory.h"
#include "memplan/training.h"

/* A memory tier to which tensors are copied, and its names in the graph. */
typedef struct place {
    const mp_link *link;
    const char *tier,
        *where; /* tier: name of the tier, such as "host". where: its name in names of storages and nodes, such as "the host" */
    /* names of channels. out: for copies out; in: for copies back in; both_ways: for both, if the two directions share a
     * channel */
    const char *out, *in, *both_ways;
    int64_t alignment; /* alignment of offsets in the tier in bytes; 0: the graph's alignment */
    int tier_number, out_number, in_number;
} place;

typedef struct extension {
    mp_graph *graph;
    size_t n_places;
    place places[2];
    const mp_offload *offload;
    int64_t least_bytes;
    int64_t next_storage,
        next_node; /* next free ids for storages and nodes. In a graph from a file, ids may differ from indices */
    mp_error *err;
} extension;

static mp_status add_place(extension *x, const place *wanted)
{
    mp_graph *graph = x->graph;
    if (!wanted->link) return MP_OK;
    place *p = &x->places[x->n_places++];
    *p = *wanted;
    MP_CHECK(mp_graph_tier(graph, p->tier, &p->tier_number, x->err));
    graph->tier_alignment[p->tier_number] = p->alignment;
    MP_CHECK(mp_graph_channel(graph, p->link->is_shared ? p->both_ways : p->out, &p->out_number, x->err));
    p->in_number = p->out_number;
    return p->link->is_shared ? MP_OK : mp_graph_channel(graph, p->in, &p->in_number, x->err);
}

static int64_t ticks_of(const mp_graph *graph, const mp_link *link, double rate, int64_t bytes)
{
    const double ticks = ceil((link->latency_seconds + (double)bytes / rate) / graph->tick_seconds);
    return ticks < (double)(INT64_MAX / 2) ? (int64_t)ticks
                                           : INT64_MAX; /* INT64_MAX also if `ticks` is NaN, for which the comparison is false;
                                                           mp_graph_finish checks the sum of ticks */
}

/* True if a storage is read by a loss or backward node, or by at least two nodes. Such a storage is needed after its first
 * reader. */
static bool is_read_later(const mp_graph *graph, int s)
{
    const int *readers = graph->readers + graph->readers_start[s];
    const int n = graph->readers_start[s + 1] - graph->readers_start[s];
    return n > 1 || (n == 1 && graph->nodes[readers[0]].phase != MP_PHASE_FORWARD);
}

bool mp_may_be_copied(const mp_graph *graph, int s, int64_t least_bytes)
{
    const mp_storage *storage = &graph->storages[s];
    const mp_node *maker = graph->producer[s] < 0 ? NULL : &graph->nodes[graph->producer[s]];
    return (storage->kind == MP_KIND_ACTIVATION || storage->kind == MP_KIND_SAVED) && !mp_storage_is_static(storage) &&
           storage->tier == MP_TIER_DEVICE && storage->bytes >= least_bytes && maker && maker->phase == MP_PHASE_FORWARD &&
           !(maker->flags & MP_NODE_OPTIONAL) && mp_list_has(maker->alternatives->writes, maker->alternatives->n_writes, s) &&
           is_read_later(graph, s);
}

static bool is_meant(const extension *x, int s)
{
    return !x->offload->storages || mp_list_has(x->offload->storages, x->offload->n_storages, s);
}

static bool may_be_copied(const extension *x, int s)
{
    return mp_may_be_copied(x->graph, s, x->least_bytes) && is_meant(x, s);
}

/* Appends the storage that contains a copy of another storage. */
static mp_status add_copy_storage(extension *x, int s, const place *p, int *copy)
{
    mp_storage *storage;
    mp_label label;
    MP_CHECK(mp_graph_storage(x->graph, &storage, x->err));
    *copy = (int)x->graph->n_storages - 1;
    const mp_storage *from = &x->graph->storages[s];
    storage->id = x->next_storage++;
    storage->name = mp_pool_format(x->graph->pool, "%s on %s", mp_storage_title(x->graph, s, &label), p->where);
    storage->bytes = from->bytes;
    storage->payload_bytes = from->payload_bytes;
    storage->kind = from->kind;
    storage->tier = p->tier_number;
    return storage->name ? MP_OK : MP_NO_MEMORY(x->err);
}

/* Sets the lists, ticks and channel of an alternative that copies one storage to another. */
static mp_status set_copy(extension *x, mp_alternative *alternative, int from, int to, int64_t ticks, int channel)
{
    *alternative = (mp_alternative){.n_reads = 1,
                                    .n_writes = 1,
                                    .reads = mp_graph_list(x->graph, &from, 1),
                                    .writes = mp_graph_list(x->graph, &to, 1),
                                    .ticks = ticks,
                                    .channel = channel};
    MP_ENSURE(ticks < INT64_MAX, x->err, MP_INVALID, "copying %s takes more ticks than can be counted",
              mp_storage_label(x->graph, from).text);
    return alternative->reads && alternative->writes ? MP_OK : MP_NO_MEMORY(x->err);
}

static mp_status add_copy_out(extension *x, int s, int copy, const place *p)
{
    mp_node *node;
    mp_label label;
    MP_CHECK(mp_graph_node(x->graph, &node, x->err));
    node->id = x->next_node++;
    node->name = mp_pool_format(x->graph->pool, "%s to %s", mp_storage_title(x->graph, s, &label), p->where);
    node->op = "Copy";
    node->source = x->graph->nodes[x->graph->producer[s]].source;
    node->phase = MP_PHASE_FORWARD;
    node->flags = MP_NODE_OPTIONAL;
    MP_ENSURE(node->name, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    return set_copy(x, node->alternatives, s, copy,
                    ticks_of(x->graph, p->link, p->link->out_bytes_per_second, x->graph->storages[s].bytes), p->out_number);
}

static mp_status add_way_back(extension *x, int s, int copy, const place *p)
{
    mp_node *node = &x->graph->nodes[x->graph->producer[s]];
    const size_t n = node->n_alternatives;
    mp_alternative *longer = mp_pool_alloc(x->graph->pool, n + 1, sizeof *longer);
    MP_ENSURE(longer, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    memcpy(longer, node->alternatives, n * sizeof *longer);
    MP_CHECK(set_copy(x, &longer[n], copy, s,
                      ticks_of(x->graph, p->link, p->link->in_bytes_per_second, x->graph->storages[s].bytes), p->in_number));
    longer[n].returns = true;
    node->alternatives = longer;
    node->n_alternatives = n + 1;
    return MP_OK;
}

/* Returns a new copy of a list in which storage `now` replaces storage `before`. */
static mp_status replace(extension *x, int **list, size_t n, int before, int now)
{
    *list = mp_graph_list(x->graph, *list, n);
    MP_ENSURE(*list, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    for (size_t k = 0; k < n; k++)
        if ((*list)[k] == before) (*list)[k] = now;
    return MP_OK;
}

static mp_status add_state_copy(extension *x, int from, int to, const char *name, double rate, int channel)
{
    mp_node *node;
    MP_CHECK(mp_graph_node(x->graph, &node, x->err));
    node->id = x->next_node++;
    node->name = name;
    node->op = "Copy";
    node->phase = MP_PHASE_UPDATE;
    MP_ENSURE(name, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    return set_copy(x, node->alternatives, from, to, ticks_of(x->graph, x->places[0].link, rate, x->graph->storages[to].bytes),
                    channel);
}

/* Moves the state s of an update to the first of the added tiers, where s is static. On the device, a copy of the state
 * lives until the update. The update writes the new state in the copy's memory, where it lives until it is copied back. */
static mp_status move_state(extension *x, int update, int s)
{
    const place *p = &x->places[0];
    mp_alternative *a = x->graph->nodes[update].alternatives;
    mp_in_place *pairs = mp_pool_alloc(x->graph->pool, a->n_in_place + 1, sizeof *pairs);
    mp_label label;
    int there, before;
    MP_ENSURE(pairs, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    MP_CHECK(add_copy_storage(x, s, p, &there));
    MP_CHECK(add_copy_storage(x, s, p, &before));
    mp_storage *state = &x->graph->storages[s], *old = &x->graph->storages[before];
    const char *title = mp_storage_title(x->graph, s, &label);
    state->kind = old->kind = MP_KIND_SAVED;
    old->tier = MP_TIER_DEVICE;
    old->name = mp_pool_format(x->graph->pool, "old %s", title);
    MP_ENSURE(old->name, x->err, MP_NOMEM, "out of memory for the graph '%s'", x->graph->name);
    MP_CHECK(replace(x, &a->reads, a->n_reads, s, before));
    if (a->n_in_place) memcpy(pairs, a->in_place, a->n_in_place * sizeof *pairs);
    pairs[a->n_in_place++] = (mp_in_place){before, s};
    a->in_place = pairs;
    MP_CHECK(add_state_copy(x, there, before, mp_pool_format(x->graph->pool, "%s from %s", title, p->where),
                            p->link->in_bytes_per_second, p->in_number));
    return add_state_copy(x, s, there, mp_pool_format(x->graph->pool, "%s to %s", title, p->where),
                          p->link->out_bytes_per_second, p->out_number);
}

/* Moves optimizer state to another tier: each state that is selected, is large enough, and is read and written by a single
 * update. */
static mp_status move_states(extension *x, size_t *n_moved)
{
    const mp_graph *graph = x->graph;
    const int n = (int)graph->n_storages;
    for (int s = 0; s < n; s++) {
        const int reader =
            graph->readers_start[s + 1] - graph->readers_start[s] == 1 ? graph->readers[graph->readers_start[s]] : -1;
        const mp_node *update = reader < 0 ? NULL : &graph->nodes[reader];
        if (graph->storages[s].kind != MP_KIND_OPTIMIZER_STATE || graph->storages[s].tier != MP_TIER_DEVICE ||
            graph->storages[s].bytes < x->least_bytes || !is_meant(x, s) || !update || update->phase != MP_PHASE_UPDATE ||
            update->n_alternatives != 1 || !mp_list_has(update->alternatives->writes, update->alternatives->n_writes, s))
            continue;
        MP_CHECK(move_state(x, reader, s));
        ++*n_moved;
    }
    return MP_OK;
}

mp_status mp_graph_offload(mp_graph *graph, const mp_offload *offload, size_t *n_copied, mp_error *err)
{
    extension x = {.graph = graph,
                   .offload = offload,
                   .least_bytes = offload->least_bytes ? offload->least_bytes : MP_OFFLOAD_LEAST_BYTES,
                   .err = err};
    const int n = (int)graph->n_storages;
    size_t n_found = 0;
    MP_ENSURE(offload->host || offload->disk, err, MP_INVALID, "the graph '%s' has no other tier to copy to", graph->name);
    MP_CHECK(add_place(&x, &(place){offload->host, "host", "the host", "copy out", "copy in", "copy", 0, 0, 0, 0}));
    MP_CHECK(add_place(
        &x, &(place){offload->disk, "disk", "disk", "disk write", "disk read", "disk", MP_DISK_BLOCK_BYTES, 0, 0, 0}));
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].id >= x.next_storage) x.next_storage = graph->storages[s].id + 1;
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].id >= x.next_node) x.next_node = graph->nodes[i].id + 1;
    for (int s = 0; s < n; s++) {
        if (!may_be_copied(&x, s)) continue;
        n_found++;
        for (size_t k = 0; k < x.n_places; k++) {
            int copy;
            MP_CHECK(add_copy_storage(&x, s, &x.places[k], &copy));
            MP_CHECK(add_copy_out(&x, s, copy, &x.places[k]));
            MP_CHECK(add_way_back(&x, s, copy, &x.places[k]));
        }
    }
    if (offload->moves_state) MP_CHECK(move_states(&x, &n_found));
    MP_CHECK(mp_graph_finish(graph, err));
    if (n_copied) *n_copied = n_found;
    return MP_OK;
}
