/* dag.c - the forward graph, its cut tensors, and a family of topological orders.
 *
 * Vertices are in the order of the list, which is topological: an edge leads to a later one. The orders are Kahn's (1962), each
 * with its own choice among the vertices that are ready.
 */
#include "planner/order/dag.h"

#include "estimator/base/memory.h"
#include "planner/math/heap.h"
#include "planner/math/splitmix.h"

/* Lists the predecessors of vertex v: the vertices that make what its node reads, each once. `stamp[p] == v` marks those
 * already seen; `writer[s]` is the last node before that writes the always-live storage s. Returns how many. */
static int predecessors_of(const mp_graph *graph, const mp_dag *dag, int v, const int *writer, int *stamp, int *out)
{
    const mp_alternative *alternative = &graph->nodes[dag->node[v]].alternatives[0];
    int n = 0;
    for (size_t i = 0; i < alternative->n_reads; i++) {
        const int s = alternative->reads[i];
        const int from = mp_storage_is_static(&graph->storages[s]) ? writer[s] : graph->producer[s];
        const int p = from < 0 ? -1 : dag->vertex[from];
        if (p < 0 || p == v || stamp[p] == v) continue;
        stamp[p] = v;
        int at = n++;
        for (; at > 0 && out[at - 1] > p; at--) out[at] = out[at - 1]; /* the list stays ascending */
        out[at] = p;
    }
    return n;
}

static mp_status fill_edges(const mp_graph *graph, mp_dag *dag, mp_error *err)
{
    const size_t n = (size_t)dag->n_vertices;
    size_t m = 0, capacity = 0;
    MP_OWNED int *stamp = mp_alloc(n, sizeof *stamp), *writer = mp_alloc(graph->n_storages, sizeof *writer), *fill = NULL;
    MP_ENSURE(stamp && writer, err, MP_NOMEM, "out of memory for the forward graph of %s", graph->name);
    for (size_t v = 0; v < n; v++) stamp[v] = -1;
    for (size_t s = 0; s < graph->n_storages; s++) writer[s] = -1;
    for (size_t v = 0; v < n; v++) {
        const mp_alternative *alternative = &graph->nodes[dag->node[v]].alternatives[0];
        MP_ENSURE(mp_grow(&dag->predecessors, &capacity, m + alternative->n_reads + 1, sizeof *dag->predecessors), err,
                  MP_NOMEM, "out of memory for the forward graph of %s", graph->name);
        m += (size_t)predecessors_of(graph, dag, (int)v, writer, stamp, dag->predecessors + m);
        dag->predecessors_start[v + 1] = (int)m;
        for (size_t i = 0; i < alternative->n_writes; i++) {
            writer[alternative->writes[i]] = dag->node[v];
            const mp_storage *storage = &graph->storages[alternative->writes[i]];
            if (!mp_storage_is_static(storage)) dag->bytes[v] += storage->bytes;
        }
    }
    MP_ENSURE(dag->successors = mp_pool_alloc(dag->pool, m, sizeof *dag->successors), err, MP_NOMEM,
              "out of memory for %zu edges", m);
    MP_ENSURE(fill = mp_alloc(n, sizeof *fill), err, MP_NOMEM, "out of memory for %zu nodes", n);
    for (size_t e = 0; e < m; e++) dag->successors_start[dag->predecessors[e] + 1]++;
    for (size_t v = 0; v < n; v++) {
        dag->successors_start[v + 1] += dag->successors_start[v];
        fill[v] = dag->successors_start[v];
    }
    for (size_t v = 0; v < n; v++)
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            dag->successors[fill[dag->predecessors[e]]++] = (int)v;
    return MP_OK;
}

mp_status mp_dag_build(const mp_graph *graph, mp_dag **out, mp_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) n += graph->nodes[i].phase == MP_PHASE_FORWARD;
    MP_OWNED_BY(mp_dag_free) mp_dag *dag = mp_alloc(1, sizeof *dag);
    MP_ENSURE(dag, err, MP_NOMEM, "out of memory for the forward graph of %s", graph->name);
    dag->pool = mp_pool_new();
    dag->n_vertices = (int)n;
    dag->node = mp_pool_alloc(dag->pool, n, sizeof *dag->node);
    dag->vertex = mp_pool_alloc(dag->pool, graph->n_nodes, sizeof *dag->vertex);
    dag->successors_start = mp_pool_alloc(dag->pool, n + 1, sizeof *dag->successors_start);
    dag->predecessors_start = mp_pool_alloc(dag->pool, n + 1, sizeof *dag->predecessors_start);
    dag->bytes = mp_pool_alloc(dag->pool, n, sizeof *dag->bytes);
    MP_ENSURE(!mp_pool_failed(dag->pool), err, MP_NOMEM, "out of memory for the forward graph of %s", graph->name);
    n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        dag->vertex[i] = -1;
        if (graph->nodes[i].phase != MP_PHASE_FORWARD) continue;
        dag->vertex[i] = (int)n;
        dag->node[n++] = (int)i;
    }
    MP_CHECK(fill_edges(graph, dag, err));
    *out = dag;
    dag = NULL;
    return MP_OK;
}

void mp_dag_free(mp_dag *dag)
{
    if (!dag) return;
    mp_pool_free(dag->pool);
    mp_free(dag->predecessors);
    mp_free(dag);
}

/* ---- cut tensors ---- */

/* Marks the vertices that depend on a storage of this kind; all of them if none does. */
static void mark_dependent(const mp_graph *graph, const mp_dag *dag, mp_kind kind, bool *dependent)
{
    bool any = false;
    for (int v = 0; v < dag->n_vertices; v++) {
        const mp_alternative *alternative = &graph->nodes[dag->node[v]].alternatives[0];
        for (size_t i = 0; i < alternative->n_reads; i++)
            if (graph->storages[alternative->reads[i]].kind == kind) dependent[v] = any = true;
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            if (dependent[dag->predecessors[e]]) dependent[v] = true;
    }
    for (int v = 0; v < dag->n_vertices && !any; v++) dependent[v] = true;
}

/* Marks the vertices of the network proper: they depend on the batch and on parameters. A weight that is cast in every step
 * depends on parameters only, a mask made from the batch on the batch only: they enter at the side and are no path from the
 * inputs. A view that owns no storage leads nowhere. */
static bool mark_network(const mp_graph *graph, const mp_dag *dag, bool *network)
{
    MP_OWNED bool *trained = mp_alloc((size_t)dag->n_vertices, sizeof *trained);
    if (!trained) return false;
    mark_dependent(graph, dag, MP_KIND_INPUT, network);
    mark_dependent(graph, dag, MP_KIND_PARAMETER, trained);
    for (int v = 0; v < dag->n_vertices; v++)
        network[v] = network[v] && trained[v] && graph->nodes[dag->node[v]].alternatives[0].n_writes > 0;
    return true;
}

/* The one storage of vertex v that forward nodes read later, if the others that they read are tiny, 1/64 of it at most; -1:
 * none or several. */
static int crossing_storage(const mp_graph *graph, const mp_dag *dag, int v)
{
    const mp_alternative *alternative = &graph->nodes[dag->node[v]].alternatives[0];
    int best = -1;
    int64_t others = 0;
    for (size_t i = 0; i < alternative->n_writes; i++) {
        const int s = alternative->writes[i];
        bool read_on = false;
        for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
            read_on |= graph->nodes[graph->readers[r]].phase == MP_PHASE_FORWARD;
        if (!read_on || mp_storage_is_static(&graph->storages[s])) continue;
        const int64_t bytes = graph->storages[s].bytes;
        if (best >= 0 && bytes <= graph->storages[best].bytes) {
            if (bytes > others) others = bytes;
            continue;
        }
        if (best >= 0) others = graph->storages[best].bytes;
        best = s;
    }
    return best >= 0 && others <= graph->storages[best].bytes / 64 ? best : -1;
}

/* The last vertex of the network that depends on none before it: where the paths through the network begin, all of them have
 * begun. */
static int last_source(const mp_dag *dag, const bool *network)
{
    int last = -1;
    for (int v = 0; v < dag->n_vertices; v++) {
        bool is_source = network[v];
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            if (network[dag->predecessors[e]]) is_source = false;
        if (is_source) last = v;
    }
    return last;
}

/* Every vertex lies on a path through the network, so a vertex is on all paths if and only if no edge, beginning or end of a
 * path passes it in the list: `farthest` is how far those from earlier vertices reach. */
mp_status mp_cut_tensors(const mp_graph *graph, int *storages, size_t *n, mp_error *err)
{
    size_t found = 0;
    MP_OWNED_BY(mp_dag_free) mp_dag *dag = NULL;
    MP_CHECK(mp_dag_build(graph, &dag, err));
    MP_OWNED bool *network = mp_alloc((size_t)dag->n_vertices, sizeof *network);
    MP_ENSURE(network && mark_network(graph, dag, network), err, MP_NOMEM, "out of memory for the cut tensors of %s",
              graph->name);
    int farthest = last_source(dag, network);
    for (int v = 0; v < dag->n_vertices; v++) {
        const int s = network[v] && farthest <= v ? crossing_storage(graph, dag, v) : -1;
        bool is_last = network[v];
        if (s >= 0) storages[found++] = s;
        for (int e = dag->successors_start[v]; e < dag->successors_start[v + 1] && network[v]; e++) {
            if (!network[dag->successors[e]]) continue;
            is_last = false;
            if (dag->successors[e] > farthest) farthest = dag->successors[e];
        }
        if (is_last) farthest = dag->n_vertices;
    }
    *n = found;
    return MP_OK;
}

/* ---- topological orders ---- */

/* How the next of the vertices that are ready is chosen. */
enum rule { BREADTH, DEPTH, NET_BYTES, BYTES, MOST_BYTES, MIXED };

static int64_t rank_of(const mp_dag *dag, enum rule rule, int number, int v, int64_t turn, const int *before_start,
                       const int *before, const int *after_start)
{
    uint64_t x = (uint64_t)number * MP_SPLITMIX_STEP + (uint64_t)v;
    int64_t net = dag->bytes[v];
    switch (rule) {
    case BREADTH:
        return turn;
    case DEPTH:
        return -turn;
    case BYTES:
        return dag->bytes[v];
    case MOST_BYTES:
        return -dag->bytes[v];
    case NET_BYTES:
        for (int e = before_start[v]; e < before_start[v + 1]; e++)
            if (after_start[before[e] + 1] - after_start[before[e]] == 1) net -= dag->bytes[before[e]];
        return net;
    default:
        return (int64_t)(mp_splitmix_mix(x) >> 1);
    }
}

/* Kahn's algorithm with a heap by rank; backwards, it starts at the sinks and fills the order from its end. */
static mp_status ready_order(const mp_dag *dag, enum rule rule, int number, bool backwards, int *order, mp_error *err)
{
    const size_t n = (size_t)dag->n_vertices;
    const int *before_start = backwards ? dag->successors_start : dag->predecessors_start;
    const int *before = backwards ? dag->successors : dag->predecessors;
    const int *after_start = backwards ? dag->predecessors_start : dag->successors_start;
    const int *after = backwards ? dag->predecessors : dag->successors;
    int64_t turn = 0;
    MP_OWNED int *missing = mp_alloc(n, sizeof *missing);
    MP_OWNED mp_heap_item *items = mp_alloc(n, sizeof *items);
    mp_heap ready = {items, 0};
    MP_ENSURE(missing && items, err, MP_NOMEM, "out of memory for an order of %zu nodes", n);
    for (int v = 0; v < (int)n; v++) {
        missing[v] = before_start[v + 1] - before_start[v];
        if (!missing[v]) mp_heap_push(&ready, rank_of(dag, rule, number, v, turn++, before_start, before, after_start), v);
    }
    for (size_t i = 0; i < n; i++) {
        const int v = mp_heap_pop(&ready);
        order[backwards ? n - 1 - i : i] = v;
        for (int e = after_start[v]; e < after_start[v + 1]; e++)
            if (--missing[after[e]] == 0)
                mp_heap_push(&ready, rank_of(dag, rule, number, after[e], turn++, before_start, before, after_start), after[e]);
    }
    return MP_OK;
}

mp_status mp_dag_order(const mp_dag *dag, int k, int *order, mp_error *err)
{
    static const struct {
        enum rule rule;
        bool backwards;
    } family[] = {{BREADTH, false}, {DEPTH, false},    {DEPTH, true},  {NET_BYTES, false},
                  {BREADTH, true},  {NET_BYTES, true}, {BYTES, false}, {MOST_BYTES, false}};
    const int n_rules = (int)(sizeof family / sizeof *family);
    if (k < n_rules) return ready_order(dag, family[k].rule, k, family[k].backwards, order, err);
    return ready_order(dag, MIXED, k, false, order, err);
}
