/* bound_couple.h - internal to the bound: a bound for a chain of intervals that is higher than the sum of their separate
 * bounds. The intervals are coupled: a storage that is live at the start of an interval was live at the start of the previous
 * interval or produced in it. */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/bound/interval/bound_interval.h"

/* Returns in *ticks a lower bound on the recomputation after nodes[0]. The intervals are (nodes[0], nodes[1]], ..., and the
 * last one ends with the step. Each node must precede the next. Makes `rounds` subgradient steps with the step size of Polyak
 * 1969. On return, the multipliers of x are cleared. MP_INFEASIBLE (no message): no plan fits the budget. MP_NOMEM. O(rounds *
 * n) minimum cuts, O(n * storages) bytes. */
mp_status mp_bound_couple(mp_bound_interval *x, const int *nodes, int n, int64_t rounds, const mp_bound_options *options,
                          int64_t *ticks, mp_error *err);
