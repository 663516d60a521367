/* bound_couple.h - a tighter bound for a chain of intervals than their sum: what is live at the start of an interval was
 * live or produced in the interval before it. For bound.c. */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/bound/interval/bound_interval.h"

/* *ticks: at least so many are taken beyond first runs in the intervals (nodes[0], nodes[1]], .., and after nodes[n - 1];
 * each node must precede the next. Changes the multipliers of what is live at boundaries `rounds` times (subgradients with
 * the step of Polyak 1969), and removes them from x at the end. MP_INFEASIBLE (no message): no plan fits. MP_NOMEM. O(rounds
 * * n * cuts) time, O(n * storages) bytes. */
mp_status mp_bound_couple(mp_bound_interval *x, const int *nodes, int n, int64_t rounds, const mp_bound_options *options,
                          int64_t *ticks, mp_error *err);
