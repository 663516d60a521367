/* arena_place.h - first fit, best fit and lowest first place the items in one given order. Private to the arena. */
#pragma once

#include "memplan/memory.h"
#include "planner/arena/arena_search.h"

typedef enum mp_arena_rule {
    MP_ARENA_FIRST_FIT, /* in the given order, each into the lowest gap; the only rule for more than MP_ARENA_UNINDEXED items */
    MP_ARENA_BEST_FIT,  /* in the given order, each into the smallest gap that it fits into */
    MP_ARENA_LOWEST_FIRST, /* whichever has the lowest offset above those placed already; the given order decides ties */
    MP_ARENA_N_RULES
} mp_arena_rule;

typedef struct mp_arena_placer mp_arena_placer;
/* NULL: out of memory. The problem must outlive it. */
mp_arena_placer *mp_arena_placer_new(mp_arena_problem *problem);
void mp_arena_placer_free(mp_arena_placer *placer); /* NULL is fine */
MP_OWNER(mp_arena_placer_free, mp_arena_placer)

/* Sets the offsets of all items, and returns the height. Ends as soon as the height reaches `limit`: then only some items have
 * their offsets. *work grows by the number of pairs that were looked at. */
int64_t mp_arena_place(mp_arena_placer *placer, const int *order, mp_arena_rule rule, int64_t limit, int64_t *work);
