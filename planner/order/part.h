/* part.h - a sequence of nodes from the list as a separate graph, called a part. A part is open or closed.
 *
 * The *open* part consists of these nodes and their outputs. Reads of outside storages, and reads by outside nodes, are
 * omitted. In a plan of the whole graph, the steps that run the part's nodes are a plan of the open part. So a bound on all
 * plans of the open part holds for these steps (bound.h).
 *
 * The *closed* part has two additional nodes. Its first node writes every storage that enters the part, and cannot be
 * recomputed. Its last node reads every storage that leaves the part. The live storages at a step of the closed part are
 * therefore the same as in the whole graph, if the nodes outside run in list order. So a plan of the closed part can replace
 * the part's nodes in the list (anneal.h). Some nodes depend on nothing outside, or nothing outside depends on them. Empty
 * storages prevent them from running before the first or after the last node.
 *
 * Example: nodes a b c d each read the previous one, and d reads a too. The closed part of b and c has four nodes: `first`
 * writes a; b reads a; c reads b; `last` reads a and c. */
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

/* Creates the part of nodes [from, to) of the list. The part refers to names of the graph, which must outlive it. `number`:
 * scratch, one element per storage. Release with mp_part_clear, also after an error. MP_NOMEM. O(storages + lists of the
 * part). */
mp_status mp_part_init(mp_part *part, const mp_graph *graph, size_t from, size_t to, bool is_closed, int *number,
                       mp_error *err);
void mp_part_clear(mp_part *part); /* a zeroed part is allowed */

/* Returns the node of the list for a node of the part; -1 for the first and last node of a closed part. */
int mp_part_node(const mp_part *part, int node);
