/* algorithms.h - chooses the algorithm of each node for a given order of steps.
 *
 * The algorithms of a node (memplan/graph.h) differ in ticks and workspace only, and a workspace is live in its own step only.
 * The order therefore fixes the memory left in each step, and the choices are independent. Each node uses its fastest algorithm
 * with a workspace that fits in all its runs. This is optimal for the order.
 */
#pragma once

#include "memplan/timeline.h"
#include "planner/order/variant.h"

/* True if some node of the graph has several algorithms. O(nodes). */
bool mp_graph_has_algorithms(const mp_graph *graph);

/* Sets the alternative of every step that has a choice of algorithms, in place: the fastest algorithms that keep the peak
 * within the budget. If none do, the fastest ones with the lowest peak. *least_bytes (may be NULL) is this lowest peak.
 * MP_INVALID: the steps cannot run. MP_NOMEM. As mp_timeline_build. */
mp_status mp_algorithms_choose(const mp_graph *graph, mp_step *steps, size_t n, int64_t budget_bytes, int64_t *least_bytes,
                               mp_error *err);

/* Returns the relaxed graph, for searchers that do not choose algorithms. In it, each algorithm of a node has the ticks of the
 * fastest and the workspace of the smallest. Bounds of the relaxed graph hold for the original graph. A plan that does not fit
 * in the relaxed graph does not fit in the original either. As mp_variant_of. */
mp_status mp_relaxed_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
