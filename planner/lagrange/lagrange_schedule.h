/* lagrange_schedule.h - the order of steps that follows from cut labels. */
#pragma once

#include "planner/lagrange/cut_labels.h"

/* The stages in list order, and before each from the end of forward on the recomputation of what it lacks. Every node runs at
 * most twice, unless `evicts_again` is set; then there are at most 4 steps for each node. Updates as mp_updates_place puts
 * them. On MP_OK *steps is released with mp_free. MP_NOMEM. O(list lengths + n log n). */
mp_status mp_lagrange_schedule(const mp_cut_labels *labels, mp_step **steps, size_t *n, mp_error *err);
