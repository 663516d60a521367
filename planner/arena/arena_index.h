/* arena_index.h - what lies where and when, so that the lowest gap is found without looking at all that lies. Private to the
 * arena.
 *
 * A tree over the steps: what lies for some steps is noted at the O(log steps) nodes that these steps are made of. What is
 * noted at one node is there together, and so lies apart from each other: sorted by offset, it is searched by halves. Besides,
 * the height up to which a step is full without a gap is known, and no search begins below it.
 */
#ifndef PLANNER_ARENA_INDEX_H
#define PLANNER_ARENA_INDEX_H

#include "planner/arena/arena_fit.h"

enum { MP_ARENA_UNINDEXED = 20000 }; /* up to so many items, looking at all that lies is quick enough */

typedef struct mp_arena_index mp_arena_index;

/* For all items of the fitting, each of which may be placed once between two clearings. NULL: out of memory. O(steps + pieces *
 * log steps). */
mp_arena_index *mp_arena_index_new(const mp_fitting *fitting);
void mp_arena_index_free(mp_arena_index *index); /* NULL is fine */
void mp_arena_index_clear(mp_arena_index *index);

/* Sets the item's offset to the lowest at which nothing that lies is in its way, and notes it there. *work grows by what was
 * looked at: O(log^2 steps) where what lies leaves few gaps, O(n) at worst. */
void mp_arena_index_place(mp_arena_index *index, mp_item *item, int64_t *work);

#endif
