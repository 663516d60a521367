/* arena_fit.h - places items with lifetimes and sizes into one block. Private to the arena.
 *
 * An item occupies its offset and what is above it, up to the bytes of the piece of its life that is on. Pieces of different
 * sizes make a staircase; where there is no piece, others may lie. All sizes are counted in units of the alignment.
 *
 * Dynamic storage allocation is NP-hard (Garey, Johnson 1979, SR2). Items are placed one after the other, each into the lowest
 * or the tightest gap, in several orders; then whichever item is possible lowest comes next, in several orders of preference;
 * and then again with what lay on top moved up in the order. The lowest height wins. What lives at the fullest step is a lower
 * bound, and where that is reached the search ends. Where no order has reached it, the packer's exact search
 * (memplan/pack.h) tries to place everything lower or to prove that it cannot be done. How much is tried depends on the
 * number of items, never on a clock.
 */
#ifndef PLANNER_ARENA_FIT_H
#define PLANNER_ARENA_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_piece { /* of an item's life */
    int first, last;      /* steps, inclusive */
    int64_t size;
} mp_piece;

typedef struct mp_item {
    int64_t offset;
    int64_t size;        /* the largest of its pieces */
    int first, last;     /* from the first to the last piece */
    int piece, n_pieces; /* pieces[piece .. piece + n_pieces), by time, apart from each other; at least one */
} mp_item;

typedef struct mp_fitting {
    mp_item *items;
    size_t n;
    const mp_piece *pieces;
    size_t n_steps;
    const struct mp_pack_options *exact; /* of the packer's search, in the units of the sizes; NULL: a short one */
    bool only_bound;                     /* no more orders are tried when that search has ended */
    int64_t height, bound;               /* found; no placement is lower than `bound` */
    int64_t nodes;                       /* of the packer's search */
} mp_fitting;

/* Sets the offset of every item so that no two overlap in time and space, and height and bound. The same input gives the same
 * offsets. MP_NOMEM. O(n^2) with a small constant, a bounded number of times; more than MP_ARENA_UNINDEXED items see
 * arena_index.h. */
mp_status mp_fit(mp_fitting *fitting, mp_error *err);

#endif
