/* part.h - a sequence of nodes from the list as a separate graph, open or closed.
 *
 * The *open* part consists of these nodes and their outputs. Reads of outside storages, and reads by outside nodes, are left
 * out. A fact about all plans of the part holds for the steps of a plan of the graph that run these nodes (bound.h).
 *
 * The *closed* part has two additional nodes. Its first node writes every storage that enters the part, and cannot be
 * recomputed. Its last node reads every storage that leaves the part. The live storages at a step of the closed part are
 * therefore the same as in the whole graph, if the list runs before and after it. A plan of the closed part can replace its
 * nodes in the list (anneal.h). Some nodes depend on nothing outside, or nothing outside depends on them. They could run before
 * the first or after the last node; empty storages prevent this.
 *
 * Example: nodes a b c d each read the previous one, and d reads a too. The closed part of b and c has four nodes: `first`
 * writes a; b reads a; c reads b; `last` reads a and c.
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_part {
    mp_graph *graph;
    size_t from, to; /* the nodes [from, to) of the list */
    bool is_closed;
} mp_part;

/* True if the graph can be divided into parts: all nodes are forward, none writes a static storage, and no gradient is carried.
 * O(graph). */
bool mp_graph_has_parts(const mp_graph *graph);

/* Creates the part of nodes [from, to). It refers to names of the graph, which must outlive it. `number`: scratch, one element
 * per storage. Release with mp_part_clear, also after an error. MP_NOMEM. O(storages + lists of the part). */
mp_status mp_part_init(mp_part *part, const mp_graph *graph, size_t from, size_t to, bool is_closed, int *number,
                       mp_error *err);
void mp_part_clear(mp_part *part); /* a zeroed part is allowed */

/* Returns the node of the list for a node of the part; -1 for the first and last node of a closed part. */
int mp_part_node(const mp_part *part, int node);
