/* arena_search.h - offsets for the items of one arena, by first fit and best fit in many orders. Private to the arena.
 *
 * The size of an item is piecewise constant over its life (its size profile, as in memplan/pack.h): it occupies [offset, offset
 * + size) at each step, and nothing where it has no piece. All sizes are counted in units of the alignment.
 *
 * Dynamic storage allocation is NP-hard (Garey and Johnson 1979, SR2). Items are placed one after the other, each by first fit
 * or by best fit, in several orders; then whichever item can be placed lowest comes next. The lowest height wins. The live
 * bytes of the fullest step are a lower bound, and where that is reached the search ends. Where no order has reached it, the
 * packer's exact search (memplan/pack.h) tries to place everything lower, or to prove that it cannot be done: first within what
 * is wanted, or a thousandth above the bound, without the small items, which are placed last, and then lower. How much is tried
 * depends on the number of items, never on a clock.
 */
#pragma once

#include "memplan/pack.h"

typedef struct mp_arena_item {
    int64_t offset;
    int64_t size;        /* the largest of its pieces */
    int begin, end;      /* steps [begin, end), from the first to the last piece */
    int piece, n_pieces; /* pieces[piece .. piece + n_pieces), by time, without overlap; at least one */
} mp_arena_item;

typedef struct mp_arena_problem {
    mp_arena_item *items;
    size_t n;
    const mp_pack_piece *pieces; /* intervals of steps */
    size_t n_pieces, n_steps;
    const mp_pack_options *exact; /* of the packer's search, in the units of the sizes; NULL: a short one */
    int64_t beside;               /* what is always there beside the arena: what is near the bound is a share of both */
    int64_t wanted;               /* a higher arena is searched for longer, at this capacity; 0: none is */
    bool (*stop)(void *data);     /* NULL: the search is as long as it is; else it ends when told, or at `wanted` */
    void *data;
    bool only_bound;       /* no more orders are tried when that search has ended; of very many items none is placed */
    int64_t height, bound; /* found; no placement is lower than `bound` */
    int64_t nodes;         /* of the packer's search */
} mp_arena_problem;

/* Sets the offset of every item so that no two overlap in time and space, and height and bound. The same input gives the same
 * offsets. MP_NOMEM. O(n^2) with a small constant, a bounded number of times; for more than MP_ARENA_UNINDEXED items see
 * arena_index.h. */
mp_status mp_arena_search(mp_arena_problem *problem, mp_error *err);
