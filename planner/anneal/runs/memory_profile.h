/* axis.h - memory along a sparse axis of slots, under change: adding to a range, and by how much the whole is over its limits.
 *
 * A slot holds a run or is empty; only occupied slots have a limit. Slots lie in chunks of 64, each with a pending addition and
 * its highest excess, so that adding to a range touches the chunks at its ends and, of those between, only the ones that are or
 * come near their limit.
 */
#ifndef PLANNER_AXIS_H
#define PLANNER_AXIS_H

#include "estimator/base/memory.h"
#include "memplan/error.h"
#include "planner/math/tuning.h"

typedef struct mp_axis {
    int n_slots;                   /* a multiple of MP_AXIS_CHUNK */
    int64_t *excess;               /* per slot: bytes over its limit (negative: below), without what its chunk has pending */
    int64_t *pending, *top, *over; /* per chunk: to be added to all its slots; the highest excess; the sum of all above 0 */
    int64_t total_over;            /* the sum of `over` */
} mp_axis;

/* All slots empty, nothing in memory. On MP_OK release with mp_axis_free (a zeroed one is fine). MP_NOMEM. O(n_slots). */
mp_status mp_axis_new(int n_slots, mp_axis *out, mp_error *err);
void mp_axis_free(mp_axis *axis);
void mp_axis_clear(mp_axis *axis);

/* Adds bytes (of either sign) to slots [first, last]; nothing if first > last. O(slots / 64 + 64). */
void mp_axis_add(mp_axis *axis, int first, int last, int64_t bytes);
/* A slot that is empty gets a limit, or one that has this limit becomes empty. O(64). */
void mp_axis_occupy(mp_axis *axis, int slot, int64_t limit);
void mp_axis_vacate(mp_axis *axis, int slot, int64_t limit);
/* Moves the occupants of slots [first, last], with all that lies in memory there, by one (-1 or 1) to the empty slot beside
 * them; the slot that they leave is empty and has so many bytes in memory. O(slots that move + 64). */
void mp_axis_shift(mp_axis *axis, int first, int last, int by, int64_t left_bytes);
/* The bytes in memory at an empty slot. O(1). */
int64_t mp_axis_level(const mp_axis *axis, int slot);
/* Bytes over the limit of an occupied slot. O(1). */
int64_t mp_axis_excess(const mp_axis *axis, int slot);
/* The same of the slot where it is most. O(slots / 64). */
int64_t mp_axis_most(const mp_axis *axis);
/* The slot in which the running sum over all slots that are over their limit passes `at`, 0 <= at < total_over. */
int mp_axis_find_over(const mp_axis *axis, int64_t at);

#endif
