/* bound_couple.h - bounds a chain of intervals more tightly than their sum, by a coupling: a storage live at the start of an
 * interval was live or produced in the previous one. Internal to the bound. */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/bound/interval/bound_interval.h"

/* Returns in *ticks a lower bound, first runs excluded, on the intervals (nodes[0], nodes[1]], ... and the rest after nodes[n -
 * 1]. Each node must precede the next. Updates the multipliers of live storages `rounds` times (subgradients with the step of
 * Polyak 1969). Resets the multipliers of x at the end. MP_INFEASIBLE (no message): no plan fits. MP_NOMEM. O(rounds * n *
 * cuts) time, O(n * storages) bytes. */
mp_status mp_bound_couple(mp_bound_interval *x, const int *nodes, int n, int64_t rounds, const mp_bound_options *options,
                          int64_t *ticks, mp_error *err);
