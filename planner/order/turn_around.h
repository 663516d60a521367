/* turn_around.h - where a graph without nodes marked loss or backward turns from producing to consuming, and the graph with
 * phases marked from there, for searchers that need them.
 *
 * Marks are a searcher's view only. Which nodes may be recomputed stays as docs/internals/plan-rules.md says: in an unmarked
 * graph every forward node, also after the turn-around. A plan of the marked view is a plan of the graph, since the view
 * forbids more.
 */
#pragma once

#include "planner/order/variant.h"

/* True if a graph is large and its storages live, in list order, for a small part of it on average. Then memory rises and
 * falls all the time, few storages are live at once, and there is no turn-around. O(storages). */
bool mp_graph_is_local(const mp_graph *graph);

/* Finds the node before which the most bytes cross in the list (produced before it, and read by it or later; static bytes
 * left out); the first of equals. *node is -1 if nothing crosses, a node is marked loss or backward, or the graph is local.
 * MP_NOMEM. O(list lengths). */
mp_status mp_turn_around(const mp_graph *graph, int *node, mp_error *err);

/* Gives the graph with all nodes from the turn-around on marked backward, except updates; unchanged if there is no
 * turn-around. Released and fails as mp_variant_of. O(list lengths). */
mp_status mp_marked_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
