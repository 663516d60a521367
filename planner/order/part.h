/* part.h - a part: successive nodes of the node list as a separate graph. A part is open or closed.
 *
 * The *open* part consists of these nodes and their outputs. It omits reads of storages from outside, and reads by nodes
 * outside. If a plan of the whole graph is reduced to the steps that run the part's nodes, it is a plan of the open part. So a
 * bound on all plans of the open part is a bound for these steps (bound.h).
 *
 * The *closed* part has two additional nodes. Its first node writes every storage that the part reads from earlier nodes; this
 * node cannot be recomputed. Its last node reads every storage of the part that later nodes read. The live storages at a step
 * of the closed part are therefore the same as in the whole graph, if the nodes outside run in list order. So a plan of the
 * closed part can replace the part's nodes in the list (anneal.h). Some nodes read no storage from outside, or no node outside
 * reads their outputs. Storages of 0 bytes ensure that these nodes run after the first and before the last node.
 *
 * Example: nodes a b c d each read the previous one, and d reads a too. The closed part of b and c has four nodes: `first`
 * writes a; b reads a; c reads b; `last` reads a and c. */
#pragma once

#include "memplan/graph.h"

typedef struct mp_part {
    mp_graph *graph;
    size_t from, to; /* the part consists of the nodes [from, to) of the whole node list */
    bool is_closed;
} mp_part;

/* True if the graph can be divided into parts: all nodes are forward, none writes a static storage, and no gradient is carried.
 * O(graph size). */
bool mp_graph_has_parts(const mp_graph *graph);

/* Creates the part of nodes [from, to) of the list. The part refers to names of the graph, which must outlive it. `number`:
 * scratch, one element per storage. Release with mp_part_clear, also after an error. MP_NOMEM. O(storages + lists of the
 * part). */
mp_status mp_part_init(mp_part *part, const mp_graph *graph, size_t from, size_t to, bool is_closed, int *number,
                       mp_error *err);
void mp_part_clear(mp_part *part); /* a zeroed part is allowed */

/* Returns the node of the whole list for a node of the part; -1 for the first and the last node of a closed part. */
int mp_part_node(const mp_part *part, int node);
