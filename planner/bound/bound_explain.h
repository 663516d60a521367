/* bound_explain.h - the interval of a bound that counts for the most, and what has to be recomputed in it. For bound.c. */
#pragma once

#include "memplan/bound.h"
#include "planner/bound/interval/bound_interval.h"

/* Sets from, to and multiplier of a bound that comes from these boundaries, each before the next: of the intervals between
 * neighbours, or (`overlapping`) from each to the end, the one that takes the most. O(n * cuts). */
void mp_bound_decide(mp_bound_interval *x, const int *nodes, int n, bool overlapping, mp_bound *bound);

/* Fills the part of the report that is about this interval. MP_NOMEM. Some cuts. */
mp_status mp_bound_explain(mp_bound_interval *x, const mp_bound *bound, mp_bound_report *report, mp_error *err);
