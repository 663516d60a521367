/* algorithms.h - chooses the algorithm of each node for a given order of steps.
 *
 * The algorithms of a node (memplan/graph.h) differ in ticks and workspace only. A workspace is live in its own step only. So
 * the memory that is free in a step depends on the order alone, and the choices for different nodes do not affect each other.
 * For each node, mp_algorithms_choose takes the fastest algorithm whose workspace fits in all runs of the node. For the given
 * order this choice is optimal. */
#pragma once

#include "memplan/timeline.h"
#include "planner/order/variant.h"

/* True if some node of the graph has several algorithms. O(nodes). */
bool mp_graph_has_algorithms(const mp_graph *graph);

/* Sets the algorithm of every step whose node has several. It uses the fastest algorithms with which the peak is within the
 * budget. If there are none, it uses the fastest algorithms among those with the lowest peak. *least_bytes (may be NULL) is
 * this lowest peak in bytes. MP_INVALID: the steps cannot run. MP_NOMEM. Takes as long as mp_timeline_build. */
mp_status mp_algorithms_choose(const mp_graph *graph, mp_step *steps, size_t n, int64_t budget_bytes, int64_t *least_bytes,
                               mp_error *err);

/* Returns the relaxed graph, for searchers that do not choose algorithms. In the relaxed graph, every algorithm of a node has
 * the ticks of the node's fastest algorithm and the workspace of the smallest. So a bound for the relaxed graph is a bound for
 * the original graph. A plan that does not fit in the relaxed graph does not fit in the original graph either. Release and
 * errors as mp_variant_of. */
mp_status mp_relaxed_graph_of(const mp_graph *graph, mp_variant *out, mp_error *err);
