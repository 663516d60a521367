/* memory_profile.h - live bytes along a sparse order under change: range additions, and the bytes over the budget in all.
 *
 * A position of the order is occupied by a run or empty; only occupied ones have a limit, and count. Positions come in chunks
 * of MP_PROFILE_CHUNK, each with a pending addition and its highest excess (a two-level segment tree with lazy additions): an
 * addition to a range touches the positions of the chunks at its ends and, of the chunks between, only those that are or come
 * near their limit.
 */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/error.h"
#include "planner/math/tuning.h"

typedef struct mp_profile {
    mp_pool *pool;                     /* of all arrays */
    int n_positions;                   /* a multiple of MP_PROFILE_CHUNK */
    int64_t *excess;                   /* per position: bytes over its limit (negative: below), without its chunk's pending */
    int64_t *pending, *highest, *over; /* per chunk: to add to its positions; the highest excess; the sum of all above 0 */
    int64_t total_over;                /* the sum of `over` */
} mp_profile;

/* All positions empty, nothing live. On MP_OK release with mp_profile_free (a zeroed one is fine). MP_NOMEM. O(positions). */
mp_status mp_profile_new(int n_positions, mp_profile *out, mp_error *err);
void mp_profile_free(mp_profile *profile);
void mp_profile_clear(mp_profile *profile);

/* Adds bytes (of either sign) to positions [begin, end); nothing if begin >= end. O(positions / 64 + 64). */
void mp_profile_add(mp_profile *profile, int begin, int end, int64_t bytes);
/* An empty position gets a limit, or one that has this limit becomes empty. O(64). */
void mp_profile_occupy(mp_profile *profile, int position, int64_t limit);
void mp_profile_vacate(mp_profile *profile, int position, int64_t limit);
/* Moves the occupants of positions [begin, end), with all bytes live there, by one (-1 or 1) to the empty position beside them;
 * the position that they leave is empty, with so many live bytes. O(positions that move + 64). */
void mp_profile_shift(mp_profile *profile, int begin, int end, int by, int64_t left_bytes);
/* The live bytes at an empty position. O(1). */
int64_t mp_profile_level(const mp_profile *profile, int position);
/* Bytes over the limit of an occupied position. O(1). */
int64_t mp_profile_excess(const mp_profile *profile, int position);
/* The highest excess of all. O(positions / 64). */
int64_t mp_profile_highest(const mp_profile *profile);
/* The position at which the running sum over all that are over their limit passes `at`, 0 <= at < total_over: a draw of `at`
 * draws a position in proportion to its excess. O(positions / 64 + 64). */
int mp_profile_find_over(const mp_profile *profile, int64_t at);
