/* arena_place.h - places items by one order. Private to the arena. */
#ifndef PLANNER_ARENA_PLACE_H
#define PLANNER_ARENA_PLACE_H

#include "planner/arena/arena_fit.h"

enum mp_placing {
    MP_FIRST_GAP,    /* the only one for more than MP_ARENA_UNINDEXED items; in the given order, each into the lowest gap */
    MP_TIGHTEST_GAP, /* in the given order, each into the smallest gap that it fits into */
    MP_LOWEST_FIRST, /* whichever can lie lowest above those that lie already; the given order decides ties */
    MP_N_PLACINGS
};

typedef struct mp_placer mp_placer;
/* NULL: out of memory. The fitting must outlive it. */
mp_placer *mp_placer_new(mp_fitting *fitting);
void mp_placer_free(mp_placer *placer); /* NULL is fine */

/* Sets the offsets of all items, and returns the height. Gives up as soon as this reaches `limit`: the offsets are then those
 * of some items only. *work grows by the number of pairs that were looked at. */
int64_t mp_place(mp_placer *placer, const int *order, enum mp_placing placing, int64_t limit, int64_t *work);

#endif
