/* arena.h - internal to planner/arena: the items of one arena, the search for their offsets, the index of gaps, and placement
 * in a given order. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/arena.h"
#include "memplan/memory.h"
#include "memplan/pack.h"
#include "memplan/timeline.h"

/* Finds offsets for the items of one arena.
 *
 * The size of an item is piecewise constant over its lifetime (its size profile, as in memplan/pack.h). At each step the item
 * occupies [offset, offset + size). At a step that no piece covers, the item occupies no memory. Sizes and offsets are counted
 * in multiples of the alignment.
 *
 * Dynamic storage allocation is NP-hard (Garey and Johnson 1979, SR2). Items are placed one after the other, by first fit or
 * best fit, in several orders. A third rule chooses, in each round, the item with the lowest possible offset. The height of a
 * placement is the end of its highest item. The placement with the least height is kept. The live bytes of the fullest step are
 * a lower bound on the height. The search ends when a placement reaches this bound.
 *
 * If no order reaches the bound, the packer's exact search (memplan/pack.h) looks for a lower placement, or proves that there
 * is none. It first tries the height `wanted`. If the caller gave none, it tries a height a thousandth above the bound, and
 * places small items last. Then it tries lower heights. The work is limited by the number of items and not by a clock, so the
 * result is deterministic. */

typedef struct mp_arena_item {
    int64_t offset;
    int64_t size;   /* largest size among the item's pieces, as a multiple of the alignment */
    int begin, end; /* lifetime in steps [begin, end): begin of the first piece to end of the last */
    /* the pieces of this item: pieces[piece .. piece + n_pieces), at least one, ascending in time and without overlap */
    int piece, n_pieces;
} mp_arena_item;

typedef struct mp_arena_problem {
    mp_arena_item *items;
    size_t n;
    const mp_pack_piece *pieces; /* the pieces of all items; each piece has one size over an interval of steps */
    size_t n_pieces, n_steps;
    const mp_pack_options *exact; /* options of the exact search */
    /* static bytes in the same memory as the arena. A height is near the bound if the difference is a small fraction of arena
     * plus static bytes */
    int64_t beside;
    /* a height that is low enough for the caller; as long as the arena is higher, the search makes more attempts; 0: none */
    int64_t wanted;
    /* true: the search ends at height `wanted`, and heights below it are not tried */
    bool first_fit;
    /* the search ends when this function returns true, or at height `wanted`; NULL: the search is not interrupted */
    bool (*stop)(void *data);
    void *data;
    /* true: the caller uses only `bound`: the exact search near the bound is skipped, and very large problems are not placed at
     * all */
    bool only_bound;
    int64_t height, bound; /* results. height: height of the arena found; bound: lower bound on the height of every placement */
    int64_t nodes;         /* result: number of nodes of the search tree that the packer's exact search visited */
} mp_arena_problem;

/* Sets the offset of every item so that two items that are live at the same time do not overlap. Sets height and bound.
 * Deterministic. MP_NOMEM. A bounded number of passes of O(n^2) with a small constant. For more than MP_ARENA_UNINDEXED items
 * see arena_index.c. */
mp_status mp_arena_search(mp_arena_problem *problem, mp_error *err);

/* The index of gaps: a segment tree over the steps. It finds the lowest gap for an item without visiting all placed items.
 *
 * Each tree node covers a range of steps. The lifetime of a placed piece is the union of O(log steps) such ranges, and the
 * piece is stored at the nodes of these ranges. Pieces at one tree node are live at the same time, so they do not overlap in
 * space. They are sorted by offset for binary search. For every step the tree also stores the height below which memory is full
 * without gaps. Searches for a gap begin at that height.
 */

typedef struct mp_arena_index mp_arena_index;

/* Creates an index for all items of the problem. Each item may be placed once between two calls of mp_arena_index_clear.
 * Returns NULL if out of memory. O(steps + pieces * log steps). */
mp_arena_index *mp_arena_index_new(const mp_arena_problem *problem);
void mp_arena_index_free(mp_arena_index *index); /* NULL is allowed */
void mp_arena_index_clear(mp_arena_index *index);

/* Sets the item's offset to the lowest offset without an overlap, and adds the item to the index. Adds the work to *work:
 * O(log^2 steps) if the placed items leave few gaps, O(n) at worst. */
void mp_arena_index_place(mp_arena_index *index, mp_arena_item *item, int64_t *work);

/* The rule by which a placer chooses the next item and its offset. */

typedef enum mp_arena_rule {
    /* places the items in the given order, each into the lowest gap that fits; the only rule for more than MP_ARENA_UNINDEXED
     * items */
    MP_ARENA_FIRST_FIT,
    MP_ARENA_BEST_FIT, /* places the items in the given order, each into the smallest gap that fits */
    /* repeatedly places the item with the lowest possible offset; of equal items, the first in the given order */
    MP_ARENA_LOWEST_FIRST,
    MP_ARENA_N_RULES
} mp_arena_rule;

typedef struct mp_arena_placer mp_arena_placer;
/* Creates a placer for the items of a problem, which must outlive the placer. Returns NULL if out of memory. */
mp_arena_placer *mp_arena_placer_new(mp_arena_problem *problem);
void mp_arena_placer_free(mp_arena_placer *placer); /* NULL is allowed */
MP_OWNER(mp_arena_placer_free, mp_arena_placer)

/* Sets the offsets of all items and returns the height. Stops as soon as the height reaches `limit`, which leaves some items
 * without an offset. Adds the number of compared pairs of items to *work. */
int64_t mp_arena_place(mp_arena_placer *placer, const int *order, mp_arena_rule rule, int64_t limit, int64_t *work);

/* ---- arena_items.c ---- */

/* Lists the items that a plan places in an arena, and converts items with offsets to places. Internal to planner/arena. Some
 * spans (lifetimes of storages, memplan/timeline.h) must share one offset. Examples are the two lives of a carried gradient, or
 * an output and the input whose memory it takes over. Such spans form a ring and become one item. A workspace is an item that
 * lasts one step. The items of workspaces follow all other items. */

typedef struct mp_arena_items {
    const mp_graph *graph;
    int tier; /* the tier of the arena */
    int64_t alignment;
    mp_timeline *timeline;
    mp_pool *pool;  /* owns all arrays of this struct, and the items and pieces of `problem` */
    int *item;      /* per span: index of the ring that contains it; -1: the span needs no memory in this arena */
    int *next;      /* per span: the next span of the same ring; the ring's last span leads to its first span */
    bool *outlives; /* per span: true if some storage of the span's ring is live beyond the end of the training step */
    size_t n_rings; /* number of rings; the items of rings come first in the problem */
} mp_arena_items;

/* Lists the items of a plan in a tier. Sets their sizes and lifetimes, but no offsets. Release *out with mp_arena_items_clear
 * on MP_OK and on errors; it owns the data of *problem. MP_INVALID: as mp_timeline_build, or the number of bytes overflows.
 * MP_NOMEM. O(n log n). */
mp_status mp_arena_items_of(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment, mp_arena_items *out,
                            mp_arena_problem *problem, mp_error *err);
void mp_arena_items_clear(mp_arena_items *items); /* a zeroed struct is allowed */

/* Converts items with offsets to places. out->arena_bytes is the highest end of all items. *out owns its places. MP_NOMEM.
 * O(n). */
mp_status mp_arena_items_place(const mp_arena_items *items, const mp_plan *plan, const mp_arena_item *placed,
                               mp_tier_layout *out, mp_error *err);
