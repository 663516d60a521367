/* turn_around.h - where a graph turns from producing to consuming, if none of its nodes is marked loss or backward, and the
 * graph with that marked, for searchers that want phases.
 *
 * Marks are a searcher's view only. What may be recomputed stays what docs/plan-rules.md says: of an unmarked graph every
 * forward node, after the turn-around too. A plan of the marked view is a plan of the graph, since the view forbids more.
 */
#pragma once

#include "planner/order/variant.h"

/* True if a graph is large and its storages live, in list order, for a small part of it on average: then memory rises and falls
 * all the time, few storages are live at once, and no place of the list is a turn-around. O(storages). */
bool mp_graph_is_local(const mp_graph *graph);

/* The node of the list before which the most bytes cross: produced earlier and read by it or later, what is always live left
 * out; the first of several. -1: nothing crosses anywhere, a node is marked loss or backward, or the graph is local. MP_NOMEM.
 * O(list lengths). */
mp_status mp_turn_around(const mp_graph *graph, int *node, mp_error *err);

/* Gives the graph whose nodes from that one on are backward, but for updates; the graph as it is where there is none. As
 * mp_variant_of. O(list lengths). */
mp_status mp_marked_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
