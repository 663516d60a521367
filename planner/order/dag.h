/* dag.h - the forward graph: its edges, cut tensors and topological orders, by igraph and Kahn's algorithm.
 *
 * The vertices are the forward nodes of a training graph. An edge leads from the producer of a storage to each forward node
 * that reads it, once per pair. For a static storage, the producer is the last node before the reader that writes it. Errors of
 * igraph are converted to mp_status, so igraph never aborts the process. Not thread-safe: call from one thread at a time.
 */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

typedef struct mp_dag {
    mp_pool *pool; /* owns all arrays except `predecessors` */
    int n_vertices;
    /* per vertex: its node in the training graph. The vertices are in the order of the graph's node list, which is
     * topological */
    int *node;
    int *vertex; /* per node of the training graph: its vertex; -1 for nodes outside of forward */
    /* the successors of vertex v are successors[successors_start[v] .. successors_start[v + 1]), ascending */
    int *successors_start, *successors;
    int *predecessors_start, *predecessors;
    int64_t *bytes; /* per vertex: bytes of the non-static outputs of its node */
} mp_dag;

/* Builds the forward graph. Release *out with mp_dag_free (NULL is allowed). MP_NOMEM. MP_PARSE: the graph has a cycle. O(n +
 * m) for n vertices and m edges. */
mp_status mp_dag_build(const mp_graph *graph, mp_dag **out, mp_error *err);
void mp_dag_free(mp_dag *dag);
MP_OWNER(mp_dag_free, mp_dag)

/* Finds the cut tensors of a training graph. A cut tensor is an output of a forward node. It is the only storage that nodes
 * after its producer read from its producer or from earlier nodes. The producer of a cut tensor is an articulation point of the
 * undirected forward graph: every path from the network's inputs to its last nodes passes through it. Writes at most
 * graph->n_storages indices to `storages`, in order of production. MP_NOMEM. O(n + m). */
mp_status mp_cut_tensors(const mp_graph *graph, int *storages, size_t *n, mp_error *err);

/* Writes the k-th order of a fixed sequence of topological orders. The first orders follow rules (breadth-first, depth-first,
 * by bytes, ...), and all others are random (splitmix64). The orders are the same on every machine. `order` has n_vertices
 * elements. MP_NOMEM. O((n + m) log n). */
mp_status mp_dag_order(const mp_dag *dag, int k, int *order, mp_error *err);
