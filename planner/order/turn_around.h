/* turn_around.h - for graphs without loss or backward nodes. The turn-around is the node from which on live bytes fall, because
 * nodes read more storages for the last time than they produce. Some searchers need a forward and a backward phase. For them,
 * all nodes from the turn-around on are marked as backward, in a copy of the graph that only the searcher sees. In the original
 * graph every forward node may be recomputed, even after the turn-around (docs/internals/plan-rules.md). In the marked graph,
 * nodes marked as backward may not be recomputed. So every plan of the marked graph is also a plan of the original graph. */
#pragma once

#include "planner/order/variant.h"

/* True for a local graph: it is large, and on average its storages are live for a small part of the node list. In a local
 * graph, live bytes rise and fall repeatedly, and few storages are live at once. So a local graph has no turn-around.
 * O(storages). */
bool mp_graph_is_local(const mp_graph *graph);

/* Finds the turn-around: the node at which the most bytes of non-static storages cross the node list. A storage crosses at a
 * node if it is produced before the node and read by the node or later. Of equal nodes, the first is chosen. *node is -1 in
 * three cases: no storage crosses, some node is a loss or backward node, or the graph is local (mp_graph_is_local). MP_NOMEM.
 * O(list lengths). */
mp_status mp_turn_around(const mp_graph *graph, int *node, mp_error *err);

/* Returns a copy of the graph in which all nodes from the turn-around on, except updates, are marked as backward. If there is
 * no turn-around, no node is marked. Release and errors as mp_variant_of. O(list lengths). */
mp_status mp_marked_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
