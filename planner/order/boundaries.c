/* boundaries.c - finds the positions in the forward list at which segments may end, and the bytes that cross each position.
 * Builds the schedule of given segments. */
#include "planner/order/boundaries.h"

#include "planner/order/segment_schedule.h"

static void find_lifetimes(mp_boundaries *b)
{
    const mp_graph *graph = b->graph;
    for (size_t s = 0; s < graph->n_storages; s++) b->birth[s] = b->last[s] = -1;
    for (int p = 0; p < b->n; p++) {
        const mp_alternative *alternative = &graph->nodes[b->node[p]].alternatives[0];
        for (size_t i = 0; i < alternative->n_reads; i++)
            if (b->birth[alternative->reads[i]] >= 0) b->last[alternative->reads[i]] = p;
        for (size_t i = 0; i < alternative->n_writes; i++)
            if (!mp_storage_is_static(&graph->storages[alternative->writes[i]]))
                b->birth[alternative->writes[i]] = b->last[alternative->writes[i]] = p;
    }
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (b->birth[s] < 0 || b->last[s] == b->birth[s]) continue;
        b->crossing_bytes[b->birth[s]] += graph->storages[s].bytes;
        b->crossing_bytes[b->last[s]] -= graph->storages[s].bytes;
    }
    for (int p = 1; p < b->n; p++) b->crossing_bytes[p] += b->crossing_bytes[p - 1];
}

mp_status mp_boundaries_new(const mp_graph *graph, mp_boundaries **out, mp_error *err)
{
    bool backward = false;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_boundaries *b = mp_pool_alloc(pool, 1, sizeof *b);
    MP_ENSURE(b, err, MP_NOMEM, "out of memory");
    b->pool = pool;
    b->graph = graph;
    b->node = mp_pool_alloc(pool, graph->n_nodes, sizeof *b->node);
    b->birth = mp_pool_alloc(pool, graph->n_storages, sizeof *b->birth);
    b->last = mp_pool_alloc(pool, graph->n_storages, sizeof *b->last);
    b->crossing_bytes = mp_pool_alloc(pool, graph->n_nodes + 1, sizeof *b->crossing_bytes);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory");
    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].phase == MP_PHASE_FORWARD) b->node[b->n++] = (int)i;
        backward |= graph->nodes[i].phase == MP_PHASE_BACKWARD;
    }
    MP_ENSURE(b->n > 0 && backward, err, MP_NOT_APPLICABLE, "%s has no backward phase, so there is nothing to recompute",
              graph->name);
    find_lifetimes(b);
    *out = b;
    pool = NULL;
    return MP_OK;
}

void mp_boundaries_free(mp_boundaries *b)
{
    if (b) mp_pool_free(b->pool);
}

mp_status mp_boundaries_schedule(const mp_boundaries *b, const bool *ends, const bool *keep, mp_step **steps, size_t *n,
                                 mp_error *err)
{
    const mp_graph *graph = b->graph;
    int n_segments = 0;
    MP_OWNED int *segment = mp_alloc(graph->n_nodes, sizeof *segment);
    MP_OWNED bool *held = mp_alloc(graph->n_storages, sizeof *held);
    MP_ENSURE(segment && held, err, MP_NOMEM, "out of memory");
    for (int p = 0; p < b->n; p++) {
        segment[b->node[p]] = n_segments;
        if (ends[p] && p + 1 < b->n) n_segments++;
    }
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (keep && keep[s]) held[s] = true;
        if (b->birth[s] >= 0 && segment[b->node[b->birth[s]]] < segment[b->node[b->last[s]]]) held[s] = true;
    }
    mp_segment_keep_small(graph, held);
    return mp_segment_schedule(graph, segment, n_segments + 1, held, steps, n, err);
}

int mp_boundaries_candidates(const mp_boundaries *b, int limit, int *positions)
{
    const int stretch = b->n > limit ? (b->n + limit - 1) / limit : 1;
    int n = 0;
    for (int first = 0; first < b->n - 1; first += stretch) {
        int best = first;
        for (int p = first + 1; p < first + stretch && p < b->n - 1; p++)
            if (b->crossing_bytes[p] <= b->crossing_bytes[best]) best = p;
        positions[n++] = best;
    }
    return n;
}
