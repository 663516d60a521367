/* algorithms.h - which algorithm computes each node, once the order of steps is known.
 *
 * The algorithms of a node (memplan/graph.h) differ in ticks and workspace only, and a workspace lives in its own step
 * only. So the order alone says how much memory each step leaves, and the choices are independent: each node takes the fastest
 * of its algorithms whose workspace fits in all of its runs, which is optimal for the order.
 */
#pragma once

#include "memplan/timeline.h"
#include "planner/order/variant.h"

/* True if some node of the graph has several algorithms. O(nodes). */
bool mp_graph_has_algorithms(const mp_graph *graph);

/* Sets the alternative of every step whose node has algorithms, in place: the fastest that keep the peak within the budget;
 * if none do, the fastest of those with the lowest peak. *least_bytes (may be NULL) is that lowest peak. MP_INVALID: the
 * steps cannot run. MP_NOMEM. As mp_timeline_build. */
mp_status mp_algorithms_choose(const mp_graph *graph, mp_step *steps, size_t n, int64_t budget_bytes, int64_t *least_bytes,
                               mp_error *err);

/* Gives the relaxed graph, for searchers that leave the choice to others: every algorithm of a node has the ticks of the
 * fastest and the workspace of the smallest. So its bounds hold for the graph itself, and what cannot fit in it cannot fit
 * at all. As mp_variant_of. */
mp_status mp_relaxed_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
