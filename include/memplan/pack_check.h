/* pack_check.h - judges offsets of a packing problem, and bounds them from below, without the search that finds them. */
#ifndef MEMPLAN_PACK_CHECK_H
#define MEMPLAN_PACK_CHECK_H

#include "memplan/pack.h"

/* The largest sum of live sizes at one time: no placement is lower. MP_INVALID: sums that do not fit. MP_NOMEM. O(n log n) for
 * n pieces. */
mp_status mp_pack_bound(const mp_pack_problem *problem, int64_t *bytes, mp_error *err);

/* Whether the offsets hold: aligned, fixed where they must be, >= 0, everything within `capacity`, no two items overlap.
 * MP_REFUTED says which item. MP_NOMEM. O(n log n + pairs of pieces live together). */
mp_status mp_pack_check(const mp_pack_problem *problem, int64_t capacity, mp_error *err);

#endif
