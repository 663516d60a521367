/* segment_schedule.c - orders loss and backward nodes topologically, segment by segment, and recomputes before each segment.
 *
 * The loss and backward nodes are sorted topologically (Kahn 1962). Of the nodes that are ready, the one of the latest segment
 * runs first; within a segment, the first of the list. A node waits for the producers of its inputs, and for all adders of a
 * sum that it reads. Contributions to a sum are in list order, so an adder also waits for the previous adder. Therefore a node
 * of a late segment may be delayed until backward has entered an earlier segment. The inputs of a delayed node remain live.
 *
 * Before the first backward node of a segment runs, all inputs of the segment's backward nodes that are not live are recomputed
 * at once. If an input's own inputs are not live, they are recomputed too, in the order of the forward pass. At the same time,
 * storages that were recomputed for other segments are evicted, unless a delayed node still reads them.
 *
 * Example: a -> b -> c -> loss, segments {a, b} {c}, b's output is kept, every backward node reads its input and output: a b c
 * loss c' | a b' a'. (b is not recomputed, because its output was kept.) */
#include "planner/order/segment_schedule.h"

#include "estimator/base/memory.h"
#include "planner/math/heap.h"
#include "planner/math/tuning.h"
#include "planner/order/updates.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    KEEP_SMALL_SHARE = 16, /* saved statistics of up to 1/16 of a node's other outputs are always kept */
};

typedef struct schedule {
    mp_pool *pool; /* owns all arrays except those with a capacity field */
    const mp_graph *graph;
    const int *segment; /* per forward node: its segment */
    int n_segments;
    int *order, *rank; /* order: the forward nodes in execution order; rank, per forward node: its index in `order` */
    size_t n_order;
    /* per storage: it is never recomputed, because it is static, kept for backward, or an output of a node that runs once */
    bool *retained;
    bool *live;     /* per storage of a forward node: it is live at the present step */
    int *transient; /* the storages that are live now and will be evicted (they are not in `retained`) */
    size_t n_transient;
    int *segment_of;       /* per loss and backward node: index of its segment */
    bool *done, *demanded; /* done, per node: it has run; demanded, per node: it is in the list of nodes to recompute */
    bool *entered;         /* per segment: some of its backward nodes have run */
    int *list;             /* nodes to recompute */
    size_t n_list;
    int *edge_from, *edge_to; /* dependencies between loss and backward nodes, as a list of edges */
    size_t n_edges, from_capacity, to_capacity;
    int *successors_start, *successors, *missing;
    int *members_start, *members; /* the loss and backward nodes, grouped by segment */
    mp_heap ready;
    mp_step *steps;
    size_t n_steps, capacity;
} schedule;

/* True for loss and backward nodes, which run exactly once. Updates are excluded. */
static bool is_backward(const mp_node *node)
{
    return node->phase == MP_PHASE_LOSS || node->phase == MP_PHASE_BACKWARD;
}

static int forward_producer(const mp_graph *graph, int s)
{
    const int p = graph->producer[s];
    return p >= 0 && graph->nodes[p].phase == MP_PHASE_FORWARD ? p : -1;
}

static mp_status push(schedule *x, int node, mp_error *err)
{
    if (!mp_grow(&x->steps, &x->capacity, x->n_steps + 1, sizeof *x->steps)) return MP_NO_MEMORY(err);
    x->steps[x->n_steps++] = (mp_step){.node = node};
    return MP_OK;
}

static void make_live(schedule *x, int node)
{
    const mp_alternative *alternative = &x->graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < alternative->n_writes; i++) {
        const int s = alternative->writes[i];
        if (x->live[s]) continue;
        x->live[s] = true;
        if (!x->retained[s]) x->transient[x->n_transient++] = s;
    }
}

/* ---- the forward pass ---- */

static mp_status order_forward(schedule *x, mp_error *err)
{
    const mp_graph *graph = x->graph;
    MP_OWNED size_t *start = mp_alloc((size_t)x->n_segments + 1, sizeof *start);
    if (!start) return MP_NO_MEMORY(err);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].phase != MP_PHASE_FORWARD) continue;
        MP_ENSURE(x->segment[i] >= 0 && x->segment[i] < x->n_segments, err, MP_INVALID, "node %s is in no segment",
                  graph->nodes[i].name);
        start[x->segment[i] + 1]++;
        x->n_order++;
    }
    for (int k = 0; k < x->n_segments; k++) start[k + 1] += start[k];
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].phase == MP_PHASE_FORWARD) {
            x->rank[i] = (int)start[x->segment[i]];
            x->order[start[x->segment[i]]++] = (int)i;
        }
    MP_OWNED int *writer =
        /* per storage: 1 + the last forward node before node i that writes it */
        mp_alloc(graph->n_storages, sizeof *writer);
    MP_ENSURE(writer, err, MP_NOMEM, "out of memory");
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_alternative *alternative = &graph->nodes[i].alternatives[0];
        if (graph->nodes[i].phase != MP_PHASE_FORWARD) continue;
        for (size_t k = 0; k < alternative->n_reads; k++) {
            const int s = alternative->reads[k], from = writer[s] - 1;
            const bool is_static = mp_storage_is_static(&graph->storages[s]);
            MP_ENSURE(is_static || from >= 0, err, MP_NOT_APPLICABLE, "%s reads %s, which no forward node produces",
                      graph->nodes[i].name, graph->storages[s].name);
            MP_ENSURE(from < 0 || x->rank[from] < x->rank[i], err, MP_INVALID, "%s reads %s from a later segment",
                      graph->nodes[i].name, graph->storages[s].name);
        }
        for (size_t k = 0; k < alternative->n_writes; k++) writer[alternative->writes[k]] = (int)i + 1;
    }
    return MP_OK;
}

static mp_status run_forward(schedule *x, mp_error *err)
{
    for (size_t i = 0; i < x->n_order; i++) {
        const int node = x->order[i];
        const mp_alternative *alternative = &x->graph->nodes[node].alternatives[0];
        MP_CHECK(push(x, node, err));
        if (x->segment[node] == x->n_segments - 1) {
            make_live(x, node);
            continue;
        }
        for (size_t k = 0; k < alternative->n_writes; k++)
            if (x->retained[alternative->writes[k]]) x->live[alternative->writes[k]] = true;
    }
    x->entered[x->n_segments - 1] = true;
    return MP_OK;
}

/* ---- the order of loss and backward nodes ---- */

static mp_status add_edge(schedule *x, int from, int to, mp_error *err)
{
    if (from < 0 || from == to) return MP_OK;
    if (!mp_grow(&x->edge_from, &x->from_capacity, x->n_edges + 1, sizeof *x->edge_from) ||
        !mp_grow(&x->edge_to, &x->to_capacity, x->n_edges + 1, sizeof *x->edge_to))
        return MP_NO_MEMORY(err);
    x->edge_from[x->n_edges] = from;
    x->edge_to[x->n_edges++] = to;
    return MP_OK;
}

/* True for a sum with many contributions and many readers. For such a sum, each adder waits for the previous one, and readers
 * wait only for the last. That needs fewer edges. */
static bool is_large_sum(const mp_graph *graph, int s)
{
    return (int64_t)(graph->adders_start[s + 1] - graph->adders_start[s]) *
               (graph->readers_start[s + 1] - graph->readers_start[s]) >
           MP_SUM_PAIRS;
}

/* Appends the edges that lead to a loss or backward node. `writer[s]` is 1 + the last earlier node that writes storage s, and
 * `adder[s]` is 1 + the last earlier node that adds to it. */
static mp_status collect_edges(schedule *x, int node, const int *writer, int *adder, mp_error *err)
{
    const mp_graph *graph = x->graph;
    const mp_alternative *alternative = &graph->nodes[node].alternatives[0];
    for (size_t k = 0; k < alternative->n_reads; k++) {
        const int s = alternative->reads[k];
        MP_CHECK(add_edge(x, writer[s] - 1, node, err));
        for (int a = is_large_sum(graph, s) ? graph->adders_start[s + 1] - 1 : graph->adders_start[s];
             a < graph->adders_start[s + 1]; a++)
            MP_CHECK(add_edge(x, graph->adders[a], node, err));
    }
    for (size_t k = 0; k < alternative->n_adds; k++) {
        const int s = alternative->adds[k];
        if (!graph->storages[s].any_sum_order || is_large_sum(graph, s)) MP_CHECK(add_edge(x, adder[s] - 1, node, err));
        adder[s] = node + 1;
    }
    return MP_OK;
}

/* Returns the segment of a loss or backward node. It is the segment of its forward node. If the graph names no forward node, it
 * is the latest segment from which the node reads a storage that is not retained. Otherwise it is `inherited`, the earliest
 * segment of the nodes for which the node waits. */
static int find_segment(const schedule *x, int node, int inherited)
{
    const mp_graph *graph = x->graph;
    const mp_alternative *alternative = &graph->nodes[node].alternatives[0];
    const int forward = graph->nodes[node].forward_of;
    int latest = -1;
    if (forward >= 0 && graph->nodes[forward].phase == MP_PHASE_FORWARD) return x->segment[forward];
    for (size_t k = 0; k < alternative->n_reads; k++) {
        const int p = forward_producer(graph, alternative->reads[k]);
        if (p >= 0 && !x->retained[alternative->reads[k]] && x->segment[p] > latest) latest = x->segment[p];
    }
    return latest >= 0 ? latest : inherited;
}

/* Finds the edges between loss and backward nodes, the segment of each node, and the nodes of each segment. */
static mp_status prepare_backward(schedule *x, mp_error *err)
{
    const mp_graph *graph = x->graph;
    const size_t n = graph->n_nodes;
    MP_OWNED int *writer = mp_alloc(2 * graph->n_storages, sizeof *writer),
                 *fill = mp_alloc(n + (size_t)x->n_segments, sizeof *fill);
    MP_ENSURE(writer && fill, err, MP_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const mp_alternative *alternative = &graph->nodes[i].alternatives[0];
        if (!is_backward(&graph->nodes[i])) continue;
        const size_t first = x->n_edges;
        int inherited = x->n_segments - 1;
        MP_CHECK(collect_edges(x, (int)i, writer, writer + graph->n_storages, err));
        for (size_t e = first; e < x->n_edges; e++) {
            const int from = x->edge_from[e];
            if (from < (int)i && x->segment_of[from] < inherited) inherited = x->segment_of[from];
        }
        x->segment_of[i] = find_segment(x, (int)i, inherited);
        x->members_start[x->segment_of[i] + 1]++;
        for (size_t k = 0; k < alternative->n_writes; k++) writer[alternative->writes[k]] = (int)i + 1;
    }
    x->successors = mp_pool_alloc(x->pool, x->n_edges, sizeof *x->successors);
    MP_ENSURE(x->successors, err, MP_NOMEM, "out of memory");
    for (size_t e = 0; e < x->n_edges; e++) {
        x->successors_start[x->edge_from[e] + 1]++;
        x->missing[x->edge_to[e]]++;
    }
    for (size_t i = 0; i < n; i++) x->successors_start[i + 1] += x->successors_start[i];
    for (size_t i = 0; i < n; i++) fill[i] = x->successors_start[i];
    for (size_t e = 0; e < x->n_edges; e++) x->successors[fill[x->edge_from[e]]++] = x->edge_to[e];
    for (int k = 0; k < x->n_segments; k++) {
        x->members_start[k + 1] += x->members_start[k];
        fill[k] = x->members_start[k];
    }
    for (size_t i = 0; i < n; i++)
        if (is_backward(&graph->nodes[i])) x->members[fill[x->segment_of[i]]++] = (int)i;
    return MP_OK;
}

/* ---- recomputation ---- */

/* If s is not live, appends the forward node that produces s to the list of nodes to recompute. */
static void demand(schedule *x, int s)
{
    const int p = forward_producer(x->graph, s);
    if (p < 0 || x->live[s] || x->demanded[p]) return;
    x->demanded[p] = true;
    x->list[x->n_list++] = p;
}

static void demand_reads(schedule *x, int node)
{
    const mp_alternative *alternative = &x->graph->nodes[node].alternatives[0];
    for (size_t k = 0; k < alternative->n_reads; k++) demand(x, alternative->reads[k]);
}

/* Appends to the list of nodes to recompute the producers of all missing inputs, recursively. Then runs the nodes of the list
 * in the order of the forward pass. */
static mp_status recompute(schedule *x, mp_error *err)
{
    /* the loop body appends nodes to the list, so n_list grows during the loop */
    for (size_t i = 0; i < x->n_list; i++) demand_reads(x, x->list[i]);
    /* the heap of nodes to recompute is stored in the unused end of the array of ready nodes */
    mp_heap by_rank = {x->ready.items + x->ready.n, 0};
    for (size_t i = 0; i < x->n_list; i++) mp_heap_push(&by_rank, x->rank[x->list[i]], x->list[i]);
    while (by_rank.n) {
        const int node = mp_heap_pop(&by_rank);
        x->demanded[node] = false;
        MP_CHECK(push(x, node, err));
        make_live(x, node);
    }
    x->n_list = 0;
    return MP_OK;
}

/* True if a backward node that has not run yet reads s, and its segment has been entered. */
static bool is_awaited(const schedule *x, int s)
{
    const mp_graph *graph = x->graph;
    for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++) {
        const int node = graph->readers[r];
        if (is_backward(&graph->nodes[node]) && !x->done[node] && x->entered[x->segment_of[node]]) return true;
    }
    return false;
}

static mp_status enter(schedule *x, int segment, mp_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n_transient; i++) {
        const int s = x->transient[i];
        if (is_awaited(x, s))
            x->transient[n++] = s;
        else
            x->live[s] = false;
    }
    x->n_transient = n;
    x->entered[segment] = true;
    for (int i = x->members_start[segment]; i < x->members_start[segment + 1]; i++)
        if (!x->done[x->members[i]]) demand_reads(x, x->members[i]);
    return recompute(x, err);
}

static void put_ready(schedule *x, int node)
{
    mp_heap_push(&x->ready, x->n_segments - 1 - x->segment_of[node], node);
}

static mp_status run_backward(schedule *x, mp_error *err)
{
    for (size_t i = 0; i < x->graph->n_nodes; i++)
        if (is_backward(&x->graph->nodes[i]) && !x->missing[i]) put_ready(x, (int)i);
    while (x->ready.n) {
        const int node = mp_heap_pop(&x->ready);
        if (!x->entered[x->segment_of[node]]) MP_CHECK(enter(x, x->segment_of[node], err));
        /* when backward entered an earlier segment, inputs of a delayed node may have been evicted; they are recomputed */
        demand_reads(x, node);
        MP_CHECK(recompute(x, err));
        MP_CHECK(push(x, node, err));
        x->done[node] = true;
        for (int e = x->successors_start[node]; e < x->successors_start[node + 1]; e++)
            if (--x->missing[x->successors[e]] == 0) put_ready(x, x->successors[e]);
    }
    return MP_OK;
}

static bool allocate(schedule *x, const bool *keep)
{
    const mp_graph *graph = x->graph;
    const size_t n = graph->n_nodes, n_storages = graph->n_storages, k = (size_t)x->n_segments;
    x->pool = mp_pool_new();
    x->order = mp_pool_alloc(x->pool, n, sizeof *x->order);
    x->rank = mp_pool_alloc(x->pool, n, sizeof *x->rank);
    x->retained = mp_pool_alloc(x->pool, n_storages, sizeof *x->retained);
    x->live = mp_pool_alloc(x->pool, n_storages, sizeof *x->live);
    x->transient = mp_pool_alloc(x->pool, n_storages, sizeof *x->transient);
    x->segment_of = mp_pool_alloc(x->pool, n, sizeof *x->segment_of);
    x->done = mp_pool_alloc(x->pool, n, sizeof *x->done);
    x->demanded = mp_pool_alloc(x->pool, n, sizeof *x->demanded);
    x->entered = mp_pool_alloc(x->pool, k, sizeof *x->entered);
    x->list = mp_pool_alloc(x->pool, n, sizeof *x->list);
    x->successors_start = mp_pool_alloc(x->pool, n + 1, sizeof *x->successors_start);
    x->missing = mp_pool_alloc(x->pool, n, sizeof *x->missing);
    x->members_start = mp_pool_alloc(x->pool, k + 1, sizeof *x->members_start);
    x->members = mp_pool_alloc(x->pool, n, sizeof *x->members);
    x->ready.items = mp_pool_alloc(x->pool, 2 * n, sizeof *x->ready.items);
    if (mp_pool_failed(x->pool)) return false;
    for (size_t s = 0; s < n_storages; s++) {
        const int p = forward_producer(graph, (int)s);
        const bool is_static = mp_storage_is_static(&graph->storages[s]);
        x->retained[s] = keep[s] || is_static || (p >= 0 && !mp_node_may_rerun(&graph->nodes[p]));
        x->live[s] = is_static;
    }
    return true;
}

static void release(schedule *x)
{
    mp_pool_free(x->pool);
    mp_free(x->edge_from);
    mp_free(x->edge_to);
    mp_free(x->steps);
}

mp_status mp_segment_schedule(const mp_graph *graph, const int *segment, int n_segments, const bool *keep, mp_step **steps,
                              size_t *n, mp_error *err)
{
    MP_CLEARED_BY(release) schedule x = {.graph = graph, .segment = segment, .n_segments = n_segments};
    bool any = false;
    for (size_t i = 0; i < graph->n_nodes; i++) any |= is_backward(&graph->nodes[i]);
    MP_ENSURE(any, err, MP_NOT_APPLICABLE, "%s has no backward phase, so there is nothing to recompute", graph->name);
    MP_ENSURE(n_segments >= 1, err, MP_INVALID, "a schedule of %d segments", n_segments);
    MP_ENSURE(allocate(&x, keep), err, MP_NOMEM, "out of memory for a schedule of %zu nodes", graph->n_nodes);
    MP_CHECK(order_forward(&x, err));
    MP_CHECK(prepare_backward(&x, err));
    MP_CHECK(run_forward(&x, err));
    MP_CHECK(run_backward(&x, err));
    return mp_updates_place(graph, x.steps, x.n_steps, steps, n, err);
}

void mp_segment_keep_small(const mp_graph *graph, bool *keep)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_alternative *alternative = &graph->nodes[i].alternatives[0];
        int64_t bytes = 0;
        if (graph->nodes[i].phase != MP_PHASE_FORWARD) continue;
        for (size_t k = 0; k < alternative->n_writes; k++) bytes += graph->storages[alternative->writes[k]].bytes;
        for (size_t k = 0; k < alternative->n_writes; k++) {
            const mp_storage *storage = &graph->storages[alternative->writes[k]];
            if (storage->kind == MP_KIND_SAVED && storage->bytes <= (bytes - storage->bytes) / KEEP_SMALL_SHARE)
                keep[alternative->writes[k]] = true;
        }
    }
}
