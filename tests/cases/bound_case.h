/* bound_case.h - graphs, budgets and calls shared by the tests of planner/bound. */
#pragma once

#include "memplan/bound.h"

/* Computes the bound, and checks that it covers the requested plans. */
mp_bound bound_of(const mp_graph *graph, int64_t budget_bytes, bool any_order, int effort);

/* Returns the device peak of the keep-all plan. */
int64_t keep_all_peak(const mp_graph *graph);

/* Returns graph `seed` of the comparisons, small enough for the oracle. */
mp_graph *tiny_graph(uint64_t seed);
/* Returns the k-th of five budgets, from the needed bytes to nearly keep-all. */
int64_t tiny_budget(const mp_graph *graph, int k);

/* Returns n layers, at most 8. Each has a product, a normalization and sometimes an activation. The normalization's backward
 * reads its input or, with `choice`, alternatively its output. */
mp_graph *layers_graph(uint64_t seed, int n, bool choice);

/* Returns a chain of n layers, at most 8, with weights. A weight's gradient may be computed at any time after its operands.
 * Weights may be shared, so that gradients are sums; `fuse` selects the updates. */
mp_graph *weights_graph(uint64_t seed, int n, mp_fuse fuse);
