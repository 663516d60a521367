/* arena_index.h - a segment tree over the steps finds the lowest gap of an item without a look at all placed items. Private to
 * the arena.
 *
 * A placed piece is noted at the O(log steps) nodes of the tree whose steps make up its life. What is noted at one node is live
 * together, and so does not overlap: sorted by offset, it is searched by halves. The tree also knows, for every step, the
 * height up to which memory is full without a gap, and no search begins below it.
 */
#pragma once

#include "planner/arena/arena_search.h"

typedef struct mp_arena_index mp_arena_index;

/* For all items of the problem, each of which may be placed once between two clearings. NULL: out of memory. O(steps + pieces *
 * log steps). */
mp_arena_index *mp_arena_index_new(const mp_arena_problem *problem);
void mp_arena_index_free(mp_arena_index *index); /* NULL is fine */
void mp_arena_index_clear(mp_arena_index *index);

/* Sets the item's offset to the lowest at which it overlaps no placed item, and notes it there. *work grows by what was looked
 * at: O(log^2 steps) where the placed items leave few gaps, O(n) at worst. */
void mp_arena_index_place(mp_arena_index *index, mp_arena_item *item, int64_t *work);
