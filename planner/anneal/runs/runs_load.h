/* runs_load.h - from an order of steps to runs at positions, and the spreading of runs over the order. */
#pragma once

#include "planner/anneal/runs/runs.h"

/* Loads an order of steps (which can run); updates in it are left out. On MP_OK release with mp_runs_free. MP_NOMEM. O(list
 * lengths + positions). */
mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const mp_step *steps, size_t n, mp_runs **out,
                      mp_error *err);
/* Spreads all runs evenly over the order, in more positions where they need them; nothing may be waiting to be undone.
 * O(positions + list lengths). */
void mp_runs_spread(mp_runs *runs);
