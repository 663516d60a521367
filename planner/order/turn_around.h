/* turn_around.h - for graphs without loss or backward nodes. Finds the turn-around, the node from which on the graph consumes
 * storages rather than produces them. Marks all nodes from there on as backward, for searchers that need phases.
 *
 * Only the searcher sees the marks. docs/internals/plan-rules.md still decides which nodes may be recomputed: in a graph
 * without marks every forward node, even after the turn-around. The marked graph forbids more than the graph. Every plan of
 * the marked graph is therefore a plan of the graph. */
#pragma once

#include "planner/order/variant.h"

/* True if the graph is large and its storages are live for a small part of the list on average. In such a graph, live bytes
 * rise and fall all the time and few storages are live at once. So it has no turn-around. O(storages). */
bool mp_graph_is_local(const mp_graph *graph);

/* Finds the node at which the most bytes cross the list: bytes of non-static storages produced before the node and read by it
 * or later. Of equal nodes, it is the first. *node is -1 in three cases: nothing crosses, a node is marked loss or backward,
 * or mp_graph_is_local. MP_NOMEM. O(list lengths). */
mp_status mp_turn_around(const mp_graph *graph, int *node, mp_error *err);

/* Returns a copy of the graph in which all nodes from the turn-around on are marked backward, except updates. Without a
 * turn-around the copy has no marks. Release and errors as mp_variant_of. O(list lengths). */
mp_status mp_marked_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
