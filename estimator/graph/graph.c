/* graph.c - builds a training graph: growing lists of storages and nodes, and their names for messages. */
#include "memplan/graph.h"

#include "estimator/base/memory.h"
#include "estimator/base/names.h"

#include <stdio.h>
#include <string.h>

#define KIND_NAME(name, text, always) text,
MP_NAMED(kind, MP_KIND_LIST(KIND_NAME))
#undef KIND_NAME
MP_NAMED(phase, "forward", "loss", "backward", "update")
MP_NAMED(fuse, "none", "backward", "forward")

#define KIND_ALWAYS(name, text, always) always,
static const bool kind_always_live[] = {MP_KIND_LIST(KIND_ALWAYS)};
#undef KIND_ALWAYS

bool mp_kind_is_static(mp_kind kind)
{
    return (unsigned)kind < MP_N_KINDS && kind_always_live[kind];
}

mp_status mp_graph_new(const char *name, mp_graph **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_ENSURE(graph = mp_alloc(1, sizeof *graph), err, MP_NOMEM, "no memory for the graph '%s'", name);
    MP_ENSURE(graph->pool = mp_pool_new(), err, MP_NOMEM, "no memory for the graph '%s'", name);
    MP_ENSURE(graph->name = mp_pool_text(graph->pool, name, strlen(name)), err, MP_NOMEM, "no memory for the graph '%s'", name);
    graph->options = "{}";
    graph->target = "";
    graph->alignment = 1;
    graph->tick_seconds = 1.0;
    graph->channels[graph->n_channels++] = "compute";
    graph->channels[graph->n_channels++] = "second stream";
    graph->tiers[graph->n_tiers++] = "device";
    *out = graph;
    graph = NULL;
    return MP_OK;
}

void mp_graph_free(mp_graph *graph)
{
    if (!graph) return;
    mp_free(graph->storages);
    mp_free(graph->nodes);
    mp_pool_free(graph->derived);
    mp_pool_free(graph->pool);
    mp_free(graph);
}

mp_status mp_graph_storage(mp_graph *graph, mp_storage **out, mp_error *err)
{
    if (!mp_grow(&graph->storages, &graph->storages_capacity, graph->n_storages + 1, sizeof *graph->storages))
        return MP_FAIL(err, MP_NOMEM, "no memory for storage %zu of the graph '%s'", graph->n_storages, graph->name);
    mp_storage *storage = &graph->storages[graph->n_storages];
    *storage = (mp_storage){.id = (int64_t)graph->n_storages, .name = ""};
    graph->n_storages++;
    *out = storage;
    return MP_OK;
}

mp_status mp_graph_node(mp_graph *graph, mp_node **out, mp_error *err)
{
    mp_alternative *alternative = mp_pool_alloc(graph->pool, 1, sizeof *alternative);
    if (!alternative || !mp_grow(&graph->nodes, &graph->nodes_capacity, graph->n_nodes + 1, sizeof *graph->nodes))
        return MP_FAIL(err, MP_NOMEM, "no memory for node %zu of the graph '%s'", graph->n_nodes, graph->name);
    mp_node *node = &graph->nodes[graph->n_nodes];
    *node = (mp_node){.id = (int64_t)graph->n_nodes,
                      .name = "",
                      .op = "",
                      .forward_of = -1,
                      .n_alternatives = 1,
                      .alternatives = alternative};
    graph->n_nodes++;
    *out = node;
    return MP_OK;
}

/* Adds a name to a list that may contain at most `most` names. */
static mp_status add_name(mp_graph *graph, const char **names, size_t *n, size_t most, const char *name, int *number,
                          mp_error *err)
{
    MP_ENSURE(*n < most, err, MP_PARSE, "the graph '%s' has more than %zu channels or tiers", graph->name, most);
    for (size_t k = 0; k < *n; k++)
        MP_ENSURE(strcmp(names[k], name) != 0, err, MP_PARSE, "the graph '%s' lists '%.60s' twice", graph->name, name);
    MP_ENSURE(names[*n] = mp_pool_text(graph->pool, name, strlen(name)), err, MP_NOMEM, "no memory for the graph '%s'",
              graph->name);
    *number = (int)(*n)++;
    return MP_OK;
}

mp_status mp_graph_channel(mp_graph *graph, const char *name, int *number, mp_error *err)
{
    return add_name(graph, graph->channels, &graph->n_channels, MP_MAX_CHANNELS, name, number, err);
}

mp_status mp_graph_tier(mp_graph *graph, const char *name, int *number, mp_error *err)
{
    return add_name(graph, graph->tiers, &graph->n_tiers, MP_MAX_TIERS, name, number, err);
}

int *mp_graph_list(mp_graph *graph, const int *storages, size_t n)
{
    int *copy = mp_pool_alloc(graph->pool, n, sizeof *copy);
    if (copy && n) memcpy(copy, storages, n * sizeof *copy);
    return copy;
}

const mp_collective_record *mp_graph_collective(mp_graph *graph, const mp_collective_record *record)
{
    mp_collective_record *copy = mp_pool_alloc(graph->pool, 1, sizeof *copy);
    if (!copy) return NULL;
    *copy = *record;
    if (record->wholes) copy->wholes = mp_graph_list(graph, record->wholes, record->n_moved);
    if (record->parts) copy->parts = mp_graph_list(graph, record->parts, record->n_moved);
    return (copy->wholes || !record->wholes) && (copy->parts || !record->parts) ? copy : NULL;
}

static mp_label label(const char *what, int64_t id, const char *name)
{
    mp_label l;
    if (name && name[0])
        snprintf(l.text, sizeof l.text, "%s %lld (%s)", what, (long long)id, name);
    else
        snprintf(l.text, sizeof l.text, "%s %lld", what, (long long)id);
    return l;
}

mp_label mp_node_label(const mp_graph *graph, int node)
{
    return label("node", graph->nodes[node].id, graph->nodes[node].name);
}

mp_label mp_storage_label(const mp_graph *graph, int storage)
{
    return label("storage", graph->storages[storage].id, graph->storages[storage].name);
}

const char *mp_storage_title(const mp_graph *graph, int storage, mp_label *label)
{
    const mp_storage *s = &graph->storages[storage];
    if (s->n_tensors) return s->tensors[0];
    if (s->name && *s->name) return s->name;
    *label = mp_storage_label(graph, storage);
    return label->text;
}

bool mp_node_has_algorithms(const mp_node *node)
{
    return node->alternatives[0].algorithm != NULL;
}

bool mp_storage_is_static(const mp_storage *storage)
{
    return storage->persistent || mp_kind_is_static(storage->kind);
}

int64_t mp_graph_static_bytes_in(const mp_graph *graph, int tier)
{
    int64_t bytes = 0; /* the sum cannot overflow, because mp_graph_finish has checked the sum over all storages */
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].tier == tier && mp_storage_is_static(&graph->storages[s])) bytes += graph->storages[s].bytes;
    return bytes;
}

int64_t mp_graph_static_bytes(const mp_graph *graph)
{
    return mp_graph_static_bytes_in(graph, MP_TIER_DEVICE);
}

void mp_graph_kind_bytes(const mp_graph *graph, int64_t bytes[MP_N_KINDS])
{
    for (int k = 0; k < MP_N_KINDS; k++) bytes[k] = 0;
    for (size_t s = 0; s < graph->n_storages; s++) bytes[graph->storages[s].kind] += graph->storages[s].bytes;
}

int64_t mp_graph_tier_alignment(const mp_graph *graph, int tier)
{
    return graph->tier_alignment[tier] ? graph->tier_alignment[tier] : graph->alignment;
}

bool mp_node_copies_state(const mp_graph *graph, int node)
{
    const mp_node *n = &graph->nodes[node];
    const mp_alternative *a = n->alternatives;
    if (n->phase != MP_PHASE_UPDATE || a->n_reads != 1 || a->n_writes != 1) return false;
    return (graph->storages[a->reads[0]].tier == MP_TIER_DEVICE) != (graph->storages[a->writes[0]].tier == MP_TIER_DEVICE);
}

mp_copy_way mp_copy_way_of(const mp_graph *graph, int node, int alternative)
{
    const mp_node *n = &graph->nodes[node];
    const mp_alternative *a = &n->alternatives[alternative];
    if (mp_node_copies_state(graph, node))
        return graph->storages[a->writes[0]].tier == MP_TIER_DEVICE ? MP_COPY_IN : MP_COPY_OUT;
    return n->flags & MP_NODE_OPTIONAL ? MP_COPY_OUT : a->returns ? MP_COPY_IN : MP_COPY_NONE;
}

size_t mp_graph_n_state_copies(const mp_graph *graph)
{
    size_t n = 0;
    while (n < graph->n_nodes && mp_node_copies_state(graph, (int)(graph->n_nodes - 1 - n))) n++;
    return n;
}

size_t mp_graph_n_required(const mp_graph *graph)
{
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) n += !(graph->nodes[i].flags & MP_NODE_OPTIONAL);
    return n;
}
