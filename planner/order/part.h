/* part.h - successive nodes of the list as a graph of their own, open or closed.
 *
 * The *open* part has these nodes and what they produce, without reads from outside or by other nodes. Whatever holds for its
 * plans holds for the steps that run these nodes in a plan of the graph (bound.h).
 *
 * The *closed* part has two nodes more. Its first node writes everything that crosses into the part, and cannot be recomputed;
 * its last node reads everything that crosses out of it. So the live storages at a step of the closed part are those at that
 * step if the list runs before and after it: its plans may take the place of these nodes in the list (anneal.h). Nodes that
 * depend on nothing outside, or on which nothing outside depends, could run beyond the two ends; empty storages hold them
 * between.
 *
 * An example: nodes a b c d, each reading the one before, and d reads a too. The closed part of b and c has four nodes: `first`
 * writes a; b reads a; c reads b; `last` reads a and c.
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_part {
    mp_graph *graph;
    size_t from, to; /* the part is the list's nodes [from, to) */
    bool is_closed;
} mp_part;

/* True if parts can be taken: all nodes are forward, none writes an always-live storage, no gradient is carried. O(graph). */
bool mp_graph_has_parts(const mp_graph *graph);

/* Makes the part of nodes [from, to). Its names are the graph's, which must outlive it. `number`: work space, one element
 * per storage. Released with mp_part_clear, also after an error. MP_NOMEM. O(storages + lists of the part). */
mp_status mp_part_init(mp_part *part, const mp_graph *graph, size_t from, size_t to, bool is_closed, int *number,
                       mp_error *err);
void mp_part_clear(mp_part *part); /* a zeroed part is allowed */

/* Returns the list's node for a node of the part; -1 for the first and last node of a closed part. */
int mp_part_node(const mp_part *part, int node);
