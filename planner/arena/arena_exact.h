/* arena_exact.h - the packer (memplan/pack.h) improves the offsets of an arena, or proves them lowest. Private to the arena. */
#pragma once

#include "planner/arena/arena_search.h"

/* Lowers height and raises bound as far as the packer's search gets: from the offsets that the items have (height is theirs),
 * with the options problem->exact, or, where that is NULL, with as many nodes as the size of the problem allows. MP_NOMEM. */
mp_status mp_arena_exact(mp_arena_problem *problem, mp_error *err);

/* Places the items above the size `dust` alone, within one capacity, with 1/part of MP_ARENA_NEAR_TIMES as many nodes; not at
 * all where these are too few to place each of them once. *placed: the offsets of all these items are set; those of the others
 * never are. Height is the caller's affair; the bound may rise, as in mp_arena_exact. MP_NOMEM. */
mp_status mp_arena_exact_within(mp_arena_problem *problem, int64_t dust, int64_t capacity, int part, bool *placed,
                                mp_error *err);
