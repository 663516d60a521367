/* arena.h - the items of one arena and their offsets: the search, the index of gaps, and placement in one given order.
 * Private to planner/arena. */
#pragma once

#include "memplan/memory.h"
#include "memplan/pack.h"

/* Offsets for the items of one arena, by first fit and best fit in many orders.
 *
 * The size of an item is piecewise constant over its life (its size profile, as in memplan/pack.h): it occupies [offset, offset
 * + size) at each step, and nothing at steps without a piece. All sizes are counted in units of the alignment.
 *
 * Dynamic storage allocation is NP-hard (Garey and Johnson 1979, SR2). Items are placed one after the other, by first fit or by
 * best fit, in several orders; a last rule always takes the item that can be placed lowest. The lowest height wins. The live
 * bytes of the fullest step are a lower bound; the search ends where it is reached. If no order reaches it, the packer's exact
 * search (memplan/pack.h) tries to find a lower placement, or to prove that there is none: first for `wanted`, or a thousandth
 * above the bound, with small items left to be placed last, then lower. The work depends on the number of items, never on a
 * clock.
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
    const mp_pack_options *exact; /* options of the packer's search, in the units of the sizes; NULL: a short search */
    int64_t beside;               /* bytes that are always there beside the arena; "near the bound" is a fraction of both */
    int64_t wanted;               /* capacity: if the arena is higher, the search goes on longer to reach it; 0: none */
    bool (*stop)(void *data);     /* NULL: the whole search runs; otherwise it ends when this returns true, or at `wanted` */
    void *data;
    bool only_bound;       /* once that search has ended, no more orders are tried; very many items are not placed at all */
    int64_t height, bound; /* results; no placement is lower than `bound` */
    int64_t nodes;         /* result: nodes of the packer's search */
} mp_arena_problem;

/* Sets the offset of every item so that no two overlap in time and space, and height and bound. The same input gives the same
 * offsets. MP_NOMEM. O(n^2) with a small constant, a bounded number of times; for more than MP_ARENA_UNINDEXED items see
 * arena_index.c. */
mp_status mp_arena_search(mp_arena_problem *problem, mp_error *err);

/* The index: a segment tree over the steps finds the lowest gap for an item without looking at all placed items.
 *
 * A placed piece is noted at the O(log steps) tree nodes whose step ranges make up its life. Pieces noted at one node are live
 * together, so they do not overlap in space: they are sorted by offset and found by binary search. For every step the tree also
 * has the height up to which memory is full without a gap; no search begins below it.
 */

typedef struct mp_arena_index mp_arena_index;

/* For all items of the problem; each may be placed once between two calls of clear. Returns NULL if out of memory. O(steps +
 * pieces * log steps). */
mp_arena_index *mp_arena_index_new(const mp_arena_problem *problem);
void mp_arena_index_free(mp_arena_index *index); /* NULL is allowed */
void mp_arena_index_clear(mp_arena_index *index);

/* Sets the item's offset to the lowest one at which it overlaps no placed item, and notes it there. Adds the work done to
 * *work: O(log^2 steps) if the placed items leave few gaps, O(n) at worst. */
void mp_arena_index_place(mp_arena_index *index, mp_arena_item *item, int64_t *work);

/* First fit, best fit and lowest first place the items in one given order. */

typedef enum mp_arena_rule {
    MP_ARENA_FIRST_FIT, /* in the given order, each into the lowest gap; the only rule for more than MP_ARENA_UNINDEXED items */
    MP_ARENA_BEST_FIT,  /* in the given order, each into the smallest gap that it fits into */
    MP_ARENA_LOWEST_FIRST, /* always the item that can be placed lowest; the given order breaks ties */
    MP_ARENA_N_RULES
} mp_arena_rule;

typedef struct mp_arena_placer mp_arena_placer;
/* Returns NULL if out of memory. The problem must outlive the placer. */
mp_arena_placer *mp_arena_placer_new(mp_arena_problem *problem);
void mp_arena_placer_free(mp_arena_placer *placer); /* NULL is allowed */
MP_OWNER(mp_arena_placer_free, mp_arena_placer)

/* Sets the offsets of all items and returns the height. Ends as soon as the height reaches `limit`; then only some items
 * have offsets. Adds the number of pairs looked at to *work. */
int64_t mp_arena_place(mp_arena_placer *placer, const int *order, mp_arena_rule rule, int64_t limit, int64_t *work);
