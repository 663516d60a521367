/* memory_profile.h - the memory profile of one tier: live bytes along a sparse order of positions that changes, and the total
 * excess over the limits.
 *
 * A position is empty or occupied by a run. Only occupied positions have a limit and an excess. Positions are grouped into
 * chunks of MP_PROFILE_CHUNK. Each chunk has a pending addition and its highest excess (a two-level segment tree with lazy
 * additions). Adding bytes to a range visits the positions in the first and the last chunk. In a chunk between, it visits the
 * positions only if the chunk is above its limit or close to it. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/error.h"
#include "planner/math/tuning.h"

typedef struct mp_profile {
    mp_pool *pool;   /* owns all arrays */
    int n_positions; /* a multiple of MP_PROFILE_CHUNK */
    int64_t *excess; /* per position: live bytes minus the position's limit, without the pending addition of its chunk */
    /* per chunk: bytes still to be added to its positions; highest excess; sum of the positive excesses */
    int64_t *pending, *highest, *over;
    int64_t total_over; /* the sum of `over` */
} mp_profile;

/* Creates a profile with empty positions. On MP_OK release with mp_profile_free (a zeroed struct is allowed). MP_NOMEM.
 * O(positions). */
mp_status mp_profile_new(int n_positions, mp_profile *out, mp_error *err);
void mp_profile_free(mp_profile *profile);
void mp_profile_clear(mp_profile *profile);

/* Adds bytes (positive or negative) to the live bytes of positions [begin, end). Does nothing if begin >= end. O(positions /
 * 64 + 64). */
void mp_profile_add(mp_profile *profile, int begin, int end, int64_t bytes);
/* mp_profile_occupy makes an empty position occupied and sets its limit. mp_profile_vacate makes an occupied position with
 * this limit empty. O(64). */
void mp_profile_occupy(mp_profile *profile, int position, int64_t limit);
void mp_profile_vacate(mp_profile *profile, int position, int64_t limit);
/* Moves the occupants of positions [begin, end), with their live bytes, by one (`by` is -1 or 1) into the adjacent empty
 * position. The vacated position becomes empty with left_bytes live bytes. O(moved positions + 64). */
void mp_profile_shift(mp_profile *profile, int begin, int end, int by, int64_t left_bytes);
/* Returns the live bytes at an empty position. O(1). */
int64_t mp_profile_level(const mp_profile *profile, int position);
/* Returns the live bytes at an occupied position minus its limit. O(1). */
int64_t mp_profile_excess(const mp_profile *profile, int position);
/* Returns the highest excess of all positions. O(positions / 64). */
int64_t mp_profile_highest(const mp_profile *profile);
/* Returns the position at which the running sum of positive excesses exceeds `at`, 0 <= at < total_over. With a uniform `at`,
 * the probability of a position is proportional to its excess. O(positions / 64 + 64). */
int mp_profile_find_over(const mp_profile *profile, int64_t at);
