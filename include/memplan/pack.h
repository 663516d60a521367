/* pack.h - exact dynamic storage allocation: offsets for items with lifetimes and sizes, with a proof of the minimum height.
 *
 * The size of an item is piecewise constant over its lifetime: its size profile. A piece is a part [begin, end) of the lifetime
 * with constant size. During a piece the item occupies the addresses [offset, offset + size of the piece). Items must not
 * overlap in both time and space. The problem is NP-hard (Garey and Johnson 1979, SR2).
 *
 * Method: depth-first branch and bound that fills the memory from below. Time is divided into sections in which no item begins
 * or ends. Each section has a base address: no more items will be placed below it. The search branches in a section whose base
 * is lower than its neighbours'; of these sections it takes the one with the fewest branches. Each item that fits in this
 * section gives one branch, in which the item is placed at the base. One more branch raises the base without an item. The
 * following rules prune branches. Each rule can be disabled, and none changes an answer:
 *
 * - The unplaced items of a section must fit above its base (Moffitt 2023, MiniMalloc).
 * - A base is raised to the lowest possible offset of the unplaced items above it (ibid.).
 * - If no item crosses the border between two sections, the problem splits into independent parts. One infeasible part makes
 *   the whole infeasible (ibid.).
 * - An item that is not placed at the base must end up directly above another item that is still unplaced.
 * - Among identical items the first has the lowest offset.
 * - Different branches may leave the same remaining problem. A remaining problem that failed once is not searched again. It is
 *   identified by a 128-bit hash.
 *
 * The search restarts with other branch orders after runs of Luby's lengths (Luby, Sinclair and Zuckerman 1993). Sections that
 * failed often in one run are branched on earlier in the next (Boussemart et al. 2004). No decision depends on a clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_pack_piece { /* A part of an item's lifetime in which the size of the item is constant. */
    int64_t begin, end;        /* time [begin, end) */
    int64_t size;              /* bytes of the item in this part of its lifetime, > 0 */
} mp_pack_piece;

typedef struct mp_pack_item {
    int piece, n_pieces; /* size profile of the item: pieces[piece .. piece + n_pieces), sorted by time, without overlap; at
                            least one piece */
    int64_t alignment;   /* alignment of the offset in bytes; >= 1 */
    int64_t fixed;       /* required offset; -1: any */
    int64_t offset;      /* offset of the item, set by mp_pack_solve and mp_pack_minimize */
} mp_pack_item;

typedef struct mp_pack_problem { /* owned by the caller */
    mp_pack_item *items;
    size_t n_items;
    const mp_pack_piece *pieces;
    size_t n_pieces;
} mp_pack_problem;

enum { /* Pruning rules, as bits of mp_pack_options.without. */
       MP_PACK_SECTIONS = 1,
       MP_PACK_FLOORS = 2,
       MP_PACK_PARTS = 4,
       MP_PACK_SUPPORT = 8,
       MP_PACK_TWINS = 16,
       MP_PACK_MEMORY = 32,
       MP_PACK_FEWEST = 64, /* choose the section of time with the fewest branches; if this rule is disabled, the section with
                               the lowest free offset */
       MP_PACK_RULES = 127
};

typedef struct mp_pack_options {
    int64_t node_limit; /* maximum number of branches that the search may examine; <= 0: no limit */
    int64_t enough; /* a height in bytes: mp_pack_minimize ends when it finds a placement of at most this height, or proves that
                       none exists; <= 0: search for the minimum */
    bool (*stop)(void *data); /* called repeatedly during the search; true ends the search. NULL: never stop */
    void *data;
    unsigned without; /* pruning rules to disable, as bits (MP_PACK_...) */
} mp_pack_options;

typedef enum mp_pack_verdict {
    MP_PACK_PLACED,     /* every item has an offset. After mp_pack_minimize the height is minimal, or at most `enough` */
    MP_PACK_INFEASIBLE, /* proved: no placement exists */
    MP_PACK_LIMIT       /* the search ended early */
} mp_pack_verdict;

typedef struct mp_pack_result {
    mp_pack_verdict verdict;
    int64_t height; /* height of the items' current placement; -1: the items have no placement */
    int64_t bound;  /* proved lower bound: every placement has at least this height, in bytes */
    int64_t nodes;
} mp_pack_result;

/* Searches for offsets within `capacity` bytes. If the search finds a placement, it sets the items' offsets, else it leaves
 * them unchanged. MP_INVALID: an item violates the rules of mp_pack_item, or a sum overflows. MP_NOMEM. Exponential; at most
 * O(s * l) work per branch for s sections of l items. */
mp_status mp_pack_solve(mp_pack_problem *problem, int64_t capacity, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err);

/* Searches for the placement with the lowest height. The limit of branches covers all tried capacities together. `known` is
 * the height of the items' current placement; -1: none. MP_PACK_LIMIT: if height >= 0, the offsets are the best found, and
 * bound <= minimum height <= height. Otherwise as mp_pack_solve. */
mp_status mp_pack_minimize(mp_pack_problem *problem, int64_t known, const mp_pack_options *options, mp_pack_result *result,
                           mp_error *err);

/* Computes the largest sum of the sizes of items that are live at the same time. This is a lower bound on the height.
 * MP_INVALID: a sum overflows. MP_NOMEM. O(n log n) for n pieces. */
mp_status mp_pack_bound(const mp_pack_problem *problem, int64_t *bytes, mp_error *err);

/* Checks offsets independently of the search: offsets are aligned, >= 0 and equal to `fixed` if the item has a fixed offset.
 * Items end within `capacity` and do not overlap. MP_REFUTED: a check failed; the message names the item. MP_NOMEM. O(n log
 * n + pairs of pieces live together). */
mp_status mp_pack_check(const mp_pack_problem *problem, int64_t capacity, mp_error *err);
