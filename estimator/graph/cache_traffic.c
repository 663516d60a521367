/* cache_traffic.c - simulates a fully associative cache of storages that evicts the least recently used one. */
#include "estimator/graph/cache_traffic.h"

#include "estimator/graph/liveness.h"

/* A storage in the simulated cache. The cache is a doubly linked list of storages in order of their last use. */
typedef struct line {
    int newer, older; /* neighbours in this list: the storage used directly after this one, and the storage used directly before
                         it; -1: none */
    bool is_in, is_dirty;
} line;

typedef struct cache {
    const mp_graph *graph;
    int64_t size, used, moved;
    line *lines; /* one element per storage of the graph, also for storages that are not in the cache */
    int newest, oldest;
} cache;

static void unlink_line(cache *c, int s)
{
    line *l = &c->lines[s];
    if (!l->is_in) return;
    if (l->newer >= 0)
        c->lines[l->newer].older = l->older;
    else
        c->newest = l->older;
    if (l->older >= 0)
        c->lines[l->older].newer = l->newer;
    else
        c->oldest = l->newer;
    l->is_in = false;
    c->used -= c->graph->storages[s].payload_bytes;
}

static void push(cache *c, int s)
{
    line *l = &c->lines[s];
    *l = (line){.newer = -1, .older = c->newest, .is_in = true, .is_dirty = l->is_dirty};
    if (c->newest >= 0)
        c->lines[c->newest].newer = s;
    else
        c->oldest = s;
    c->newest = s;
    c->used += c->graph->storages[s].payload_bytes;
    while (c->used > c->size) {
        const int last = c->oldest;
        if (c->lines[last].is_dirty) c->moved += c->graph->storages[last].payload_bytes;
        unlink_line(c, last);
        c->lines[last].is_dirty = false;
    }
}

static void touch(cache *c, int s, bool reads, bool writes)
{
    line *l = &c->lines[s];
    const int64_t bytes = c->graph->storages[s].payload_bytes;
    if (bytes > c->size) {
        c->moved += bytes * (reads + writes);
        return;
    }
    if (reads && !l->is_in) c->moved += bytes;
    unlink_line(c, s);
    l->is_dirty |= writes;
    push(c, s);
}

static void die(cache *c, int s)
{
    unlink_line(c, s);
    c->lines[s].is_dirty = false;
}

/* Simulates one training step. begun[s] is true after a contribution to storage s has been made. */
static void simulate_step(cache *c, const mp_step *steps, size_t n, const mp_timeline *timeline, const int *ends,
                          const size_t *end_start, bool *begun)
{
    const mp_graph *g = c->graph;
    for (size_t t = 0; t < n; t++) {
        const mp_node *node = &g->nodes[steps[t].node];
        const mp_alternative *alternative = &node->alternatives[steps[t].alternative];
        if (!(node->flags & MP_NODE_VIEW)) {
            for (size_t k = 0; k < alternative->n_reads; k++) touch(c, alternative->reads[k], true, false);
            for (size_t k = 0; k < alternative->n_adds; k++) {
                touch(c, alternative->adds[k], begun[alternative->adds[k]], true);
                begun[alternative->adds[k]] = true;
            }
            for (size_t k = 0; k < alternative->n_writes; k++) touch(c, alternative->writes[k], false, true);
        }
        for (size_t k = end_start[t]; k < end_start[t + 1]; k++) {
            const int s = timeline->spans[ends[k]].storage;
            if (t + 1 == n && mp_storage_outlives_step(&g->storages[s])) continue;
            die(c, s);
            begun[s] = false;
        }
    }
}

mp_status mp_cache_traffic(const mp_graph *graph, const mp_step *steps, size_t n, int64_t cache_bytes, int64_t *out,
                           mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    cache c = {.graph = graph, .size = cache_bytes, .newest = -1, .oldest = -1};
    MP_CHECK(mp_timeline_build(graph, steps, n, &timeline, err));
    c.lines = mp_pool_alloc(pool, graph->n_storages, sizeof *c.lines);
    bool *begun = mp_pool_alloc(pool, graph->n_storages, sizeof *begun);
    int *ends = mp_pool_alloc(pool, timeline->n_spans, sizeof *ends);
    size_t *end_start = mp_pool_alloc(pool, n + 2, sizeof *end_start), *at = mp_pool_alloc(pool, n + 2, sizeof *at);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for %zu steps", n);
    for (size_t k = 0; k < timeline->n_spans; k++) end_start[timeline->spans[k].end]++;
    for (size_t t = 0; t < n; t++) end_start[t + 1] += end_start[t];
    for (size_t t = 0; t <= n; t++) at[t] = end_start[t];
    for (size_t k = 0; k < timeline->n_spans; k++) ends[at[timeline->spans[k].end - 1]++] = (int)k;
    simulate_step(&c, steps, n, timeline, ends, end_start, begun);
    const int64_t warm = c.moved;
    simulate_step(&c, steps, n, timeline, ends, end_start, begun);
    *out = c.moved - warm;
    return MP_OK;
}
