/* turn_around.c - computes, for each node of the list, the bytes that are produced before the node and read at it or later. The
 * turn-around is the node with the largest number of such bytes. */
#include "planner/order/turn_around.h"

#include "planner/math/tuning.h"

static bool is_marked(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase == MP_PHASE_LOSS || graph->nodes[v].phase == MP_PHASE_BACKWARD) return true;
    return false;
}

bool mp_graph_is_local(const mp_graph *graph)
{
    int64_t nodes = 0;
    if (graph->n_nodes <= MP_LARGE_GRAPH_NODES) return false;
    for (size_t s = 0; s < graph->n_storages; s++) {
        const int first = graph->readers_start[s], end = graph->readers_start[s + 1];
        if (graph->producer[s] >= 0 && end > first && graph->readers[end - 1] > graph->producer[s])
            nodes += graph->readers[end - 1] - graph->producer[s];
    }
    return nodes / (int64_t)(graph->n_storages + 1) < (int64_t)graph->n_nodes / MP_LOCAL_SHARE;
}

mp_status mp_turn_around(const mp_graph *graph, int *node, mp_error *err)
{
    MP_OWNED int64_t *more_bytes = mp_alloc(graph->n_nodes + 1, sizeof *more_bytes);
    int64_t bytes = 0, most = 0;
    MP_ENSURE(more_bytes, err, MP_NOMEM, "out of memory for %zu nodes", graph->n_nodes);
    *node = -1;
    if (is_marked(graph) || mp_graph_is_local(graph)) return MP_OK;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        const int producer = graph->producer[s];
        int last = -1;
        if (producer < 0 || mp_storage_is_static(&graph->storages[s])) continue;
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
            if (graph->nodes[graph->readers[r]].phase != MP_PHASE_UPDATE && graph->readers[r] > last) last = graph->readers[r];
        if (last <= producer) continue;
        more_bytes[producer + 1] += graph->storages[s].bytes;
        more_bytes[last + 1] -= graph->storages[s].bytes;
    }
    for (size_t v = 0; v < graph->n_nodes; v++) {
        bytes += more_bytes[v];
        if (bytes <= most) continue;
        most = bytes;
        *node = (int)v;
    }
    return MP_OK;
}

mp_status mp_marked_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err)
{
    int first;
    MP_CHECK(mp_turn_around(graph, &first, err));
    MP_CHECK(mp_variant_of(graph, out, err));
    for (size_t v = first < 0 ? graph->n_nodes : (size_t)first; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase == MP_PHASE_FORWARD) out->graph.nodes[v].phase = MP_PHASE_BACKWARD;
    return MP_OK;
}
