/* part.h - successive nodes of the list as a graph of their own, open or closed.
 *
 * The *open* part has these nodes and what they produce; what they read of others is left out, and so is what others read of
 * them. Whatever holds of its plans holds of the steps that run these nodes in a plan of the graph (bound.h).
 *
 * The *closed* part has two nodes more. Its first writes everything that crosses into the part, and cannot be recomputed; its
 * last reads everything that crosses out of it. So whatever is live at a step of the closed part is what is live at that step
 * if the list runs before and after: its plans may take the place of these nodes in the list (anneal.h). What is neither read
 * from outside nor by what is read from outside would be free to run beyond the ends; empty storages hold it between them.
 *
 * An example: nodes a b c d, each reading the one before, and d reads a too. The closed part of b and c has four nodes: `first`
 * writes a; b reads a; c reads b; `last` reads a and c.
 */
#pragma once

#include "memplan/graph.h"

typedef struct mp_part {
    mp_graph *graph;
    size_t from, to; /* the nodes of the list, half-open */
    bool is_closed;
} mp_part;

/* True if parts can be taken: all nodes are forward, none writes what is always live, nothing is carried. O(graph). */
bool mp_graph_has_parts(const mp_graph *graph);

/* Nodes [from, to); names are the graph's, which has to outlive it. `number` is work, one element for each storage. Released
 * with mp_part_clear, also after an error. MP_NOMEM. O(storages + lists of the part). */
mp_status mp_part_init(mp_part *part, const mp_graph *graph, size_t from, size_t to, bool is_closed, int *number,
                       mp_error *err);
void mp_part_clear(mp_part *part); /* a zeroed one is fine */

/* The node of the list that a node of the part is; -1: it is the first or last one of a closed part. */
int mp_part_node(const mp_part *part, int node);
