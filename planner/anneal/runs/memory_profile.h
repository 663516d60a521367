/* memory_profile.h - live bytes along a sparse order that changes: range additions, and the total excess over the limits.
 *
 * A position of the order is empty or occupied by a run; only occupied positions have a limit and an excess. Positions come in
 * chunks of MP_PROFILE_CHUNK, each with a pending addition and its highest excess (a two-level segment tree with lazy
 * additions). An addition to a range touches the positions of the chunks at its two ends. Of the chunks between it touches only
 * the positions of those that are above their limit or come near it.
 */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/error.h"
#include "planner/math/tuning.h"

typedef struct mp_profile {
    mp_pool *pool;                     /* owns all arrays */
    int n_positions;                   /* a multiple of MP_PROFILE_CHUNK */
    int64_t *excess;                   /* per position: live bytes less its limit, without the pending addition */
    int64_t *pending, *highest, *over; /* per chunk: pending addition; highest excess; sum of positive excesses */
    int64_t total_over;                /* the sum of `over` */
} mp_profile;

/* All positions are empty at first. On MP_OK release with mp_profile_free (zeroed is fine). MP_NOMEM. O(positions). */
mp_status mp_profile_new(int n_positions, mp_profile *out, mp_error *err);
void mp_profile_free(mp_profile *profile);
void mp_profile_clear(mp_profile *profile);

/* Adds bytes (of either sign) to positions [begin, end); nothing if begin >= end. O(positions / 64 + 64). */
void mp_profile_add(mp_profile *profile, int begin, int end, int64_t bytes);
/* Gives an empty position this limit, or empties a position that has this limit. O(64). */
void mp_profile_occupy(mp_profile *profile, int position, int64_t limit);
void mp_profile_vacate(mp_profile *profile, int position, int64_t limit);
/* Moves the occupants of positions [begin, end), with the bytes live there, by one (`by` is -1 or 1) into the empty position
 * beside them. The position left behind becomes empty with left_bytes live bytes. O(positions that move + 64). */
void mp_profile_shift(mp_profile *profile, int begin, int end, int by, int64_t left_bytes);
/* Returns the live bytes at an empty position. O(1). */
int64_t mp_profile_level(const mp_profile *profile, int position);
/* Returns the live bytes at an occupied position less its limit. O(1). */
int64_t mp_profile_excess(const mp_profile *profile, int position);
/* Returns the highest excess of all positions. O(positions / 64). */
int64_t mp_profile_highest(const mp_profile *profile);
/* Returns the position at which the running sum of positive excesses passes `at`, 0 <= at < total_over. A uniform draw of
 * `at` so draws a position in proportion to its excess. O(positions / 64 + 64). */
int mp_profile_find_over(const mp_profile *profile, int64_t at);
