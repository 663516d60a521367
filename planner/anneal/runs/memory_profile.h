/* memory_profile.h - the memory profile of one tier: the live bytes at each position of a sparse order of runs, and the bytes
 * over the limits, summed over all positions. The order changes while a search runs.
 *
 * A position is empty or occupied by a run. Only occupied positions have a limit and an excess. Positions are grouped into
 * chunks of equal size. Each chunk stores its highest excess, and an addition that is still to be made to all of its
 * positions (a two-level segment tree with lazy additions). Adding bytes to a range visits the positions in the first and the
 * last chunk. In a chunk between these two, it visits the positions only if some position exceeds its limit or is close to
 * it. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/error.h"

typedef struct mp_profile {
    mp_pool *pool;   /* owns all arrays */
    int n_positions; /* a multiple of the size of a chunk */
    /* per position: live bytes minus the limit of the position, without the pending addition of its chunk */
    int64_t *excess;
    /* per chunk. pending: bytes still to be added to each of its positions. highest: its highest excess. over: the sum of its
     * positive excesses */
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
/* mp_profile_occupy marks an empty position as occupied and sets its limit. mp_profile_vacate marks an occupied position, whose
 * limit is given, as empty. O(64). */
void mp_profile_occupy(mp_profile *profile, int position, int64_t limit);
void mp_profile_vacate(mp_profile *profile, int position, int64_t limit);
/* Moves the entries of the occupied positions [begin, end) by one position into the adjacent empty position. `by` is -1
 * (towards the begin) or 1. The position that becomes empty gets left_bytes live bytes. O(moved positions + 64). */
void mp_profile_shift(mp_profile *profile, int begin, int end, int by, int64_t left_bytes);
/* Returns the bytes that are live at an empty position. O(1). */
int64_t mp_profile_level(const mp_profile *profile, int position);
/* Returns the excess of an occupied position: its live bytes minus its limit. O(1). */
int64_t mp_profile_excess(const mp_profile *profile, int position);
/* Returns the largest excess (live bytes minus limit) of all positions. O(positions / 64). */
int64_t mp_profile_highest(const mp_profile *profile);
/* Adds up the positive excesses in order of position, and returns the position at which the sum exceeds `at`, 0 <= at <
 * total_over. With a uniform random `at`, the probability of a position is proportional to its excess. O(positions / 64 +
 * 64). */
int mp_profile_find_over(const mp_profile *profile, int64_t at);
