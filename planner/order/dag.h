/* dag.h - the forward graph: its edges, cut tensors and topological orders, by igraph and Kahn's algorithm.
 *
 * The vertices are the forward nodes of a training graph. An edge leads from the producer of a storage to each forward node
 * that reads it, once per pair. The producer of a static storage is its last writer before the reader. igraph's errors are
 * converted to mp_status; it never aborts. Not thread-safe: call from one thread at a time.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_dag {
    mp_pool *pool; /* owns all arrays except `predecessors` */
    int n_vertices;
    int *node;                          /* vertex -> node of the training graph, in the graph's order, which is topological */
    int *vertex;                        /* node of the training graph -> vertex; -1 for nodes outside forward */
    int *successors_start, *successors; /* vertex v has successors[successors_start[v] .. successors_start[v + 1]), ascending */
    int *predecessors_start, *predecessors;
    int64_t *bytes; /* per vertex: bytes of its non-static outputs */
} mp_dag;

/* Builds the forward graph. Release *out with mp_dag_free (NULL is allowed). MP_NOMEM. MP_PARSE: the graph has a cycle. O(n +
 * m) for n vertices and m edges. */
mp_status mp_dag_build(const mp_graph *graph, mp_dag **out, mp_error *err);
void mp_dag_free(mp_dag *dag);
MP_OWNER(mp_dag_free, mp_dag)

/* Finds the cut tensors of a training graph. A cut tensor is a storage of a forward node. It is the only storage live between
 * the nodes before it and the nodes after it. Every path from the network's inputs to its last nodes passes through the
 * producer of a cut tensor, an articulation point of the undirected forward graph. Writes at most graph->n_storages indices to
 * `storages`, in order of production. MP_NOMEM. O(n + m). */
mp_status mp_cut_tensors(const mp_graph *graph, int *storages, size_t *n, mp_error *err);

/* Writes topological order number `k` of a fixed family: breadth-first, depth-first, by bytes, ..., then random ones by
 * splitmix64. The orders are the same on every machine. `order` has n_vertices elements. MP_NOMEM. O((n + m) log n). */
mp_status mp_dag_order(const mp_dag *dag, int k, int *order, mp_error *err);
