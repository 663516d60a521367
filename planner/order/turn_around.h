/* turn_around.h - finds the turn-around of a graph without loss or backward marks: the node from which on storages are consumed
 * rather than produced. Builds the graph with phases marked from there, for searchers that need phases.
 *
 * The marks affect the searcher's view only. docs/internals/plan-rules.md still decides which nodes may be recomputed: in an
 * unmarked graph every forward node, even after the turn-around. The view forbids more than the graph. Every plan of the view
 * is therefore a plan of the graph.
 */
#pragma once

#include "planner/order/variant.h"

/* True if a graph is large and its storages live for a small part of the list on average. Live bytes then rise and fall all the
 * time, few storages are live at once, and there is no turn-around. O(storages). */
bool mp_graph_is_local(const mp_graph *graph);

/* Finds the node before which the most bytes cross in the list: non-static storages produced before it and read at or after it.
 * Of equal nodes, the first. *node is -1 in three cases: nothing crosses, a node is marked loss or backward, or the graph is
 * local. MP_NOMEM. O(list lengths). */
mp_status mp_turn_around(const mp_graph *graph, int *node, mp_error *err);

/* Returns the graph with all nodes from the turn-around on marked backward, except updates. Without a turn-around it equals the
 * original. Release and errors as mp_variant_of. O(list lengths). */
mp_status mp_marked_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
