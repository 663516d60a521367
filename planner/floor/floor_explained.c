/* floor_explained.c - the floor of a graph with its reason: by the precedence relation, or with copies from each node alone.
 * Also lists the storages of the node that determines a floor. */
#include "planner/floor/floor.h"

#include "estimator/graph/liveness.h"
#include "estimator/graph/without_state_copies.h"

/* ---- graphs with copies ---- */

static bool is_on_device(const void *graph, mp_in_place pair)
{
    return ((const mp_graph *)graph)->storages[pair.to].tier == MP_TIER_DEVICE;
}

/* Returns the bytes of an alternative's operands and workspace on the device, minus the most that its in-place pairs can
 * save. */
static int64_t bytes_of_run(const mp_graph *graph, const mp_alternative *x, int64_t *best)
{
    const struct {
        const int *list;
        size_t n;
    } lists[] = {{x->reads, x->n_reads}, {x->writes, x->n_writes}, {x->adds, x->n_adds}};
    const mp_pairs_most most = mp_pairs_save_at_most(graph, x, is_on_device, graph, best);
    int64_t bytes = x->workspace_bytes;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; i < lists[k].n; i++) {
            const mp_storage *storage = &graph->storages[lists[k].list[i]];
            if (storage->tier == MP_TIER_DEVICE && !mp_storage_is_static(storage)) bytes += storage->bytes;
        }
    return bytes - (most.inputs_bytes < most.outputs_bytes ? most.inputs_bytes : most.outputs_bytes);
}

/* Computes the floor of a graph with copies: the largest bytes that any single node needs on the device at its first run. All
 * other storages may be in another tier at that time. */
static mp_status floor_of_copies(const mp_graph *graph, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err)
{
    int64_t highest = 0;
    MP_OWNED int64_t *best = mp_alloc(graph->n_storages, sizeof *best);
    MP_ENSURE(best, err, MP_NOMEM, "no memory for the floor of '%s'", graph->name);
    *reason = (mp_floor_reason){.node = -1, .storage = -1, .producer = -1, .beside = -1};
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        int64_t least = INT64_MAX;
        for (size_t k = 0; k < node->n_alternatives && !(node->flags & MP_NODE_OPTIONAL); k++) {
            if (node->alternatives[k].returns) continue;
            const int64_t bytes = bytes_of_run(graph, &node->alternatives[k], best);
            if (bytes < least) least = bytes;
        }
        if (least == INT64_MAX || (least <= highest && reason->node >= 0)) continue;
        highest = least;
        reason->node = v;
    }
    *floor_bytes = highest + mp_graph_static_bytes(graph);
    return MP_OK;
}

/* ---- the floor and its reason ---- */

mp_status mp_floor_explained(const mp_graph *graph, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err)
{
    MP_OWNED_BY(mp_precedence_free) mp_precedence *order = NULL;
    MP_OWNED_BY(mp_graph_free) mp_graph *without_state = NULL;
    if (mp_graph_n_state_copies(graph)) {
        MP_CHECK(mp_graph_without_state_copies(graph, &without_state, err));
        return mp_floor_explained(without_state, floor_bytes, reason, err);
    }
    if (graph->has_copies) return floor_of_copies(graph, floor_bytes, reason, err);
    MP_CHECK(mp_precedence_new(graph, false, &order, err));
    return mp_floor_of(order, floor_bytes, reason, err);
}

mp_status mp_floor(const mp_graph *graph, int64_t *floor_bytes, int *node, mp_error *err)
{
    mp_floor_reason reason = {.node = -1};
    const mp_status st = mp_floor_explained(graph, floor_bytes, &reason, err);
    if (st == MP_OK) *node = reason.node;
    return st;
}

/* ---- the storages of a node ---- */

/* True if storage `s` follows storage `than` in a list by descending bytes, and for equal bytes by ascending index. `than` -1:
 * always true. */
static bool comes_after(const mp_graph *graph, int s, int than)
{
    if (than < 0) return true;
    const int64_t a = graph->storages[s].bytes, b = graph->storages[than].bytes;
    return a < b || (a == b && s > than);
}

size_t mp_floor_storages(const mp_graph *graph, int node, int *storages, size_t most, int64_t *bytes)
{
    const mp_alternative *base = &graph->nodes[node].alternatives[0];
    const int *const lists[] = {base->reads, base->writes, base->adds};
    const size_t lengths[] = {base->n_reads, base->n_writes, base->n_adds};
    *bytes = 0;
    for (size_t n = 0, last = 0;; n++) {
        const int before = n ? (int)last : -1;
        int best = -1;
        for (int l = 0; l < 3; l++)
            for (size_t k = 0; k < lengths[l]; k++) {
                const int s = lists[l][k];
                if (!mp_storage_is_static(&graph->storages[s]) && comes_after(graph, s, before) &&
                    (best < 0 || comes_after(graph, best, s)))
                    best = s;
            }
        if (best < 0) return n;
        if (n < most) storages[n] = best;
        *bytes += graph->storages[best].bytes;
        last = (size_t)best;
    }
}
