/* floor_shared.c - a lower bound on the floors of many graphs, from the nodes and gradients that all of them contain. */
#include "planner/floor/floor.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/base/names.h"
#include "estimator/graph/liveness.h"
#include "planner/math/bits.h"

struct mp_floor_shared {
    mp_pool *pool; /* owns the arrays */
    const mp_graph *graph;
    int64_t static_bytes;
    int64_t *node_bytes; /* per node of `graph`: the least bytes of its operands and workspace in any graph; -1: not shared */
    int64_t
        *ending_bytes; /* per storage: its least bytes in any graph; -1: in some graph it may be free at the end of backward */
};

static bool may_always_apply(const void *graph, mp_in_place pair)
{
    (void)graph;
    (void)pair;
    return true;
}

static int64_t list_bytes(const mp_graph *graph, const int *list, size_t n)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const mp_storage *s = &graph->storages[list[i]];
        if (s->tier == MP_TIER_DEVICE && !mp_storage_is_static(s)) bytes += s->bytes;
    }
    return bytes;
}

/* Returns the least bytes of operands and workspace that a node needs on the device at any of its runs, in any plan. The
 * result depends on the node's own lists only. -1: a plan may omit the node, or its operands depend on other nodes (a
 * collective). */
static int64_t bytes_of_node(const mp_graph *graph, const mp_node *node, int64_t *best)
{
    int64_t least = INT64_MAX;
    if (node->collective || (node->flags & MP_NODE_OPTIONAL)) return -1;
    for (size_t k = 0; k < node->n_alternatives; k++) {
        const mp_alternative *a = &node->alternatives[k];
        if (a->returns) continue;
        const mp_pairs_most saved = mp_pairs_save_at_most(graph, a, may_always_apply, NULL, best);
        const int64_t bytes = a->workspace_bytes + list_bytes(graph, a->reads, a->n_reads) +
                              list_bytes(graph, a->writes, a->n_writes) + list_bytes(graph, a->adds, a->n_adds) -
                              mp_smaller(saved.inputs_bytes, saved.outputs_bytes);
        least = mp_smaller(least, mp_larger(bytes, 0));
    }
    return least < INT64_MAX ? least : -1;
}

/* True if the storage is the gradient of a parameter, and is live at the end of backward in every plan. */
static bool is_live_at_end(const mp_precedence *o, int s)
{
    const int end = o->n - 1;
    const mp_storage *storage = &o->graph->storages[s];
    if (storage->kind != MP_KIND_GRADIENT || mp_storage_is_static(storage) || o->recomputable[s]) return false;
    const mp_certain_life life = mp_certain_life_of(o, s);
    bool has_begun = false, is_needed = life.stays;
    for (int k = 0; k < life.n_makers; k++) has_begun |= mp_precedes(o, life.makers[k], end);
    for (int k = 0; k < life.n_users; k++) is_needed |= mp_precedes(o, end, life.users[k]);
    return has_begun && is_needed;
}

/* Computes the bytes of all nodes, and of all storages that are live at the end of backward; -1 for the others. */
static mp_status measure(const mp_graph *graph, const mp_precedence *order, int64_t *node_bytes, int64_t *ending_bytes,
                         mp_error *err)
{
    MP_OWNED int64_t *best = mp_alloc(graph->n_storages, sizeof *best);
    if (!best) return MP_NO_MEMORY(err);
    for (size_t v = 0; v < graph->n_nodes; v++) node_bytes[v] = bytes_of_node(graph, &graph->nodes[v], best);
    for (size_t s = 0; s < graph->n_storages; s++)
        ending_bytes[s] = order && order->only_vertex < 0 && is_live_at_end(order, (int)s) ? graph->storages[s].bytes : -1;
    return MP_OK;
}

mp_status mp_floor_shared_new(const mp_graph *graph, const mp_precedence *order, mp_floor_shared **out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_floor_shared *x = mp_pool_alloc(pool, 1, sizeof *x);
    int64_t *node_bytes = mp_pool_alloc(pool, graph->n_nodes, sizeof *node_bytes);
    int64_t *ending_bytes = mp_pool_alloc(pool, graph->n_storages, sizeof *ending_bytes);
    if (mp_pool_failed(pool)) return MP_NO_MEMORY(err);
    *x = (mp_floor_shared){pool, graph, mp_graph_static_bytes(graph), node_bytes, ending_bytes};
    MP_CHECK(measure(graph, order, node_bytes, ending_bytes, err));
    *out = x;
    pool = NULL;
    return MP_OK;
}

void mp_floor_shared_free(mp_floor_shared *x)
{
    if (x) mp_pool_free(x->pool);
}

/* Lowers bytes[k] to the bytes of the entry with the same name in the other graph; -1: there is none, or the name is not
 * unique. */
static void meet(const mp_names *names, const char *name, const int64_t *others, int64_t *bytes)
{
    const int other = mp_names_find(names, name);
    if (*bytes >= 0) *bytes = other < 0 ? -1 : mp_smaller(*bytes, others[other]);
}

/* Stores the index of each name. An index is -1 if several entries have the same name. */
static bool note_name(mp_names *names, const char *name, int index)
{
    return mp_names_set(names, name, mp_names_find(names, name) >= 0 ? -1 : index);
}

mp_status mp_floor_shared_meet(mp_floor_shared *x, const mp_graph *graph, const mp_precedence *order, mp_error *err)
{
    MP_OWNED_BY(mp_names_free) mp_names *nodes = mp_names_new(), *storages = mp_names_new();
    MP_OWNED int64_t *node_bytes = mp_alloc(graph->n_nodes, sizeof *node_bytes);
    MP_OWNED int64_t *ending_bytes = mp_alloc(graph->n_storages, sizeof *ending_bytes);
    bool is_noted = nodes && storages && node_bytes && ending_bytes;
    for (size_t v = 0; is_noted && v < graph->n_nodes; v++) is_noted = note_name(nodes, graph->nodes[v].name, (int)v);
    for (size_t s = 0; is_noted && s < graph->n_storages; s++) is_noted = note_name(storages, graph->storages[s].name, (int)s);
    if (!is_noted) return MP_NO_MEMORY(err);
    MP_CHECK(measure(graph, order, node_bytes, ending_bytes, err));
    x->static_bytes = mp_smaller(x->static_bytes, mp_graph_static_bytes(graph));
    for (size_t v = 0; v < x->graph->n_nodes; v++) meet(nodes, x->graph->nodes[v].name, node_bytes, &x->node_bytes[v]);
    for (size_t s = 0; s < x->graph->n_storages; s++)
        meet(storages, x->graph->storages[s].name, ending_bytes, &x->ending_bytes[s]);
    return MP_OK;
}

int64_t mp_floor_shared_bytes(const mp_floor_shared *x)
{
    int64_t highest = 0, ending = 0;
    for (size_t v = 0; v < x->graph->n_nodes; v++) highest = mp_larger(highest, x->node_bytes[v]);
    for (size_t s = 0; s < x->graph->n_storages; s++) ending += mp_larger(x->ending_bytes[s], 0);
    return x->static_bytes + mp_larger(highest, ending);
}
