/* dag.c - the interface to igraph: the forward graph, its cut tensors, and a fixed sequence of topological orders.
 *
 * igraph decides whether the graph is acyclic, and finds articulation points. Its default error handler aborts the process.
 * memplan therefore installs its own handler around every use: it records the reason and frees the objects on igraph's cleanup
 * stack. The caller's handler is restored afterwards. The topological orders use Kahn's algorithm (1962) with several rules for
 * choosing among the ready vertices. igraph's function offers no such choice. */
#include "planner/order/dag.h"

#include <igraph/igraph.h>
#include <stdio.h>

#include "estimator/base/memory.h"
#include "planner/math/heap.h"
#include "planner/math/splitmix.h"

/* before version 0.10, igraph stores vertex numbers in vectors of floating-point numbers */
#if IGRAPH_VERSION_MAJOR == 0 && IGRAPH_VERSION_MINOR < 10
typedef int igraph_error_t;
#define igraph_vector_int_t igraph_vector_t
#define igraph_vector_int_init igraph_vector_init
#define igraph_vector_int_size igraph_vector_size
#define igraph_vector_int_destroy igraph_vector_destroy
#endif

static _Thread_local char reason_text[256];

static void record(const char *reason, const char *file, int line, igraph_error_t code)
{
    (void)file, (void)line;
    snprintf(reason_text, sizeof reason_text, "%s (igraph error %d)", reason ? reason : "unknown", (int)code);
    IGRAPH_FINALLY_FREE();
}

static mp_status igraph_failure(igraph_error_t code, mp_error *err)
{
    if (code == IGRAPH_ENOMEM) return MP_FAIL(err, MP_NOMEM, "out of memory in igraph");
    return MP_FAIL(err, MP_INVALID, "%s", reason_text);
}

#define DAG_CHECK(call)                                           \
    do {                                                          \
        const igraph_error_t rc = (call);                         \
        if (rc != IGRAPH_SUCCESS) return igraph_failure(rc, err); \
    } while (0)

/* Owner types for igraph's objects, which free the object at the end of a scope. A zeroed owner owns nothing. */
typedef struct graph_copy {
    igraph_t g;
    bool live;
} graph_copy;

static void copy_free(graph_copy *copy)
{
    if (copy->live) igraph_destroy(&copy->g);
}

static void vector_free(igraph_vector_int_t *v)
{
    if (v->stor_begin) igraph_vector_int_destroy(v);
}

/* From this macro on to the end of the function, the function record() receives igraph's errors. */
#define IGRAPH_RECORDS \
    __attribute__((unused)) MP_CLEARED_BY(restore_handler) igraph_error_handler_t *before_ = igraph_set_error_handler(record)

static void restore_handler(igraph_error_handler_t **before)
{
    igraph_set_error_handler(*before);
}

/* Creates igraph's graph of n vertices. pairs[0..2 m) contains the two vertices of each edge. */
static mp_status igraph_from(graph_copy *copy, int n, const int *pairs, size_t m, bool directed, mp_error *err)
{
    MP_CLEARED_BY(vector_free) igraph_vector_int_t edges = {0};
    DAG_CHECK(igraph_vector_int_init(&edges, (igraph_integer_t)(2 * m)));
    for (size_t i = 0; i < 2 * m; i++) VECTOR(edges)[i] = pairs[i];
    DAG_CHECK(igraph_create(&copy->g, &edges, n, directed));
    copy->live = true;
    return MP_OK;
}

/* Returns the edges of the forward graph as pairs of vertices, in the order of the successor lists. Release with mp_free. */
static int *edge_pairs(const mp_dag *dag, size_t n_more)
{
    const size_t m = (size_t)dag->successors_start[dag->n_vertices];
    int *pairs = mp_alloc(2 * (m + n_more), sizeof *pairs);
    for (int v = 0; pairs && v < dag->n_vertices; v++)
        for (int e = dag->successors_start[v]; e < dag->successors_start[v + 1]; e++) {
            pairs[2 * (size_t)e] = v;
            pairs[2 * (size_t)e + 1] = dag->successors[e];
        }
    return pairs;
}

static mp_status check_acyclic(const mp_graph *graph, const mp_dag *dag, mp_error *err)
{
    igraph_bool_t acyclic = true;
    IGRAPH_RECORDS;
    MP_CLEARED_BY(copy_free) graph_copy copy = {0};
    MP_OWNED int *pairs = edge_pairs(dag, 0);
    MP_ENSURE(pairs, err, MP_NOMEM, "out of memory for a graph of %d nodes", dag->n_vertices);
    MP_CHECK(igraph_from(&copy, dag->n_vertices, pairs, (size_t)dag->successors_start[dag->n_vertices], true, err));
    DAG_CHECK(igraph_is_dag(&copy.g, &acyclic));
    MP_ENSURE(acyclic, err, MP_PARSE, "the forward nodes of %s depend on each other in a cycle", graph->name);
    return MP_OK;
}

/* Writes the predecessors of vertex v to `out`, each once and in ascending order, and returns their number. They are the
 * producers of the inputs of v's node. `stamp[p] == v`: predecessor p is already in `out`. `writer[s]`: of the nodes before v,
 * the last one that writes the static storage s. */
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
        for (; at > 0 && out[at - 1] > p; at--) out[at] = out[at - 1]; /* keeps the list ascending */
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
    MP_CHECK(check_acyclic(graph, dag, err));
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

/* Marks the vertices that depend, directly or not, on a storage of the given kind. If the graph has no storage of this kind,
 * marks all vertices. */
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

/* Marks the vertices on the main path of the network: they depend both on the batch and on parameters. Other vertices are side
 * inputs. For example, a weight cast in every step depends on parameters only, and a mask made from the batch depends on the
 * batch only. Cut tensors need not separate side inputs from the network. A node that writes no storage, such as a view, is not
 * marked either. */
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

/* Returns the largest output of vertex v that forward nodes read. Returns -1 if there is none, or if another such output has
 * more than 1/64 of its bytes. */
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

/* Finds cut tensors as articulation points of the undirected graph. Every vertex is on a path from a virtual source to a
 * virtual sink. So each component that an articulation point cuts off contains the source or the sink, and the point separates
 * the two. */
mp_status mp_cut_tensors(const mp_graph *graph, int *storages, size_t *n, mp_error *err)
{
    size_t m = 0, found = 0;
    IGRAPH_RECORDS;
    MP_OWNED_BY(mp_dag_free) mp_dag *dag = NULL;
    MP_CLEARED_BY(copy_free) graph_copy copy = {0};
    MP_CLEARED_BY(vector_free) igraph_vector_int_t points = {0};
    MP_CHECK(mp_dag_build(graph, &dag, err));
    const int source = dag->n_vertices, sink = source + 1;
    MP_OWNED int *pairs = edge_pairs(dag, 2 * (size_t)dag->n_vertices);
    MP_OWNED bool *network = mp_alloc((size_t)dag->n_vertices, sizeof *network);
    MP_OWNED bool *cut = mp_alloc((size_t)dag->n_vertices + 2, sizeof *cut);
    MP_ENSURE(pairs && network && cut && mark_network(graph, dag, network), err, MP_NOMEM,
              "out of memory for the cut tensors of %s", graph->name);
    for (int e = 0; e < dag->successors_start[dag->n_vertices]; e++) {
        const int from = pairs[2 * (size_t)e], to = pairs[2 * (size_t)e + 1];
        if (!network[from] || !network[to]) continue;
        pairs[2 * m] = from;
        pairs[2 * m++ + 1] = to;
    }
    for (int v = 0; v < dag->n_vertices; v++) {
        bool first = true, last = true;
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            if (network[dag->predecessors[e]]) first = false;
        for (int e = dag->successors_start[v]; e < dag->successors_start[v + 1]; e++)
            if (network[dag->successors[e]]) last = false;
        if (!network[v]) continue; /* a vertex outside of the main path has no edges in this graph */
        if (first) pairs[2 * m] = source, pairs[2 * m++ + 1] = v;
        if (last) pairs[2 * m] = v, pairs[2 * m++ + 1] = sink;
    }
    MP_CHECK(igraph_from(&copy, dag->n_vertices + 2, pairs, m, false, err));
    DAG_CHECK(igraph_vector_int_init(&points, 0));
    DAG_CHECK(igraph_articulation_points(&copy.g, &points));
    for (igraph_integer_t i = 0; i < igraph_vector_int_size(&points); i++) cut[(size_t)VECTOR(points)[i]] = true;
    for (int v = 0; v < dag->n_vertices; v++) {
        const int s = cut[v] ? crossing_storage(graph, dag, v) : -1;
        if (s >= 0) storages[found++] = s;
    }
    *n = found;
    return MP_OK;
}

/* ---- topological orders ---- */

/* The rule by which the next vertex is chosen. Candidates are the vertices whose predecessors are all in the order already. */
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

/* Kahn's algorithm. A heap contains the ready vertices, sorted by their rank under the rule. With `backwards` the algorithm
 * starts at the sinks and writes the order from its end. */
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
