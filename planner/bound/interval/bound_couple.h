/* bound_couple.h - a tighter bound for a chain of intervals than their sum: what is live at the start of one was live or
 * produced in the one before. For bound.c.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/bound/interval/bound_interval.h"

/* At least *ticks are taken beyond first runs in the intervals (nodes[0], nodes[1]], .., after nodes[n - 1], each node before
 * the next. Multipliers for what is live at boundaries are moved `rounds` times (subgradients with the step of Polyak 1969). x
 * comes back without any; MP_INFEASIBLE (no message): no plan fits. MP_NOMEM. O(rounds * n * cuts) time, O(n * storages) bytes.
 */
mp_status mp_bound_couple(mp_bound_interval *x, const int *nodes, int n, int64_t rounds, const mp_bound_options *options,
                          int64_t *ticks, mp_error *err);
