/* bound_case.h - graphs, budgets and calls that the tests of planner/bound share. */
#pragma once

#include "memplan/bound.h"

/* The bound; what it covers is what was asked for. */
mp_bound bound_of(const mp_graph *graph, int64_t budget_bytes, bool any_order, int effort);

/* The peak of the plan that keeps everything, on the device. */
int64_t keep_all_peak(const mp_graph *graph);

/* Graph number `seed` of the comparisons, small enough for the oracle. */
mp_graph *tiny_graph(uint64_t seed);
/* The k-th budget of five: from what is needed to nearly keep-all. */
int64_t tiny_budget(const mp_graph *graph, int k);

/* Layers of a product, a normalization whose backward reads its input or, with `choice`, its output, and here and there an
 * activation; n of them, at most 8. */
mp_graph *layers_graph(uint64_t seed, int n, bool choice);

/* A chain of n layers, at most 8, with weights: the gradient of a weight is computed beside the chain of backward, at any time
 * after what it reads. Weights may be shared, so that gradients are sums; updates as `fuse` says. */
mp_graph *weights_graph(uint64_t seed, int n, mp_fuse fuse);
