/* arena.h - the items of one arena and their offsets: the search, the index of the gaps, and the placing in one order. Private
 * to planner/arena. */
#pragma once

#include "memplan/memory.h"
#include "memplan/pack.h"

/* Offsets for the items of one arena, by first fit and best fit in many orders.
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
 * arena_index.c. */
mp_status mp_arena_search(mp_arena_problem *problem, mp_error *err);

/* The index: a segment tree over the steps finds the lowest gap of an item without a look at all placed items.
 *
 * A placed piece is noted at the O(log steps) nodes of the tree whose steps make up its life. What is noted at one node is live
 * together, and so does not overlap: sorted by offset, it is searched by halves. The tree also knows, for every step, the
 * height up to which memory is full without a gap, and no search begins below it.
 */

typedef struct mp_arena_index mp_arena_index;

/* For all items of the problem, each of which may be placed once between two clearings. NULL: out of memory. O(steps + pieces *
 * log steps). */
mp_arena_index *mp_arena_index_new(const mp_arena_problem *problem);
void mp_arena_index_free(mp_arena_index *index); /* NULL is fine */
void mp_arena_index_clear(mp_arena_index *index);

/* Sets the item's offset to the lowest at which it overlaps no placed item, and notes it there. *work grows by what was looked
 * at: O(log^2 steps) where the placed items leave few gaps, O(n) at worst. */
void mp_arena_index_place(mp_arena_index *index, mp_arena_item *item, int64_t *work);

/* First fit, best fit and lowest first place the items in one given order. */

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
