/* pack.h - exact dynamic storage allocation: offsets for items with lifetimes and sizes, as low as possible, with proof.
 *
 * The size of an item is piecewise constant over its life: its size profile. While a piece [begin, end) lasts, the item
 * occupies [offset, offset + size of the piece). Items must not overlap in both time and space. The problem is NP-hard (Garey
 * and Johnson 1979, SR2).
 *
 * Method: depth-first branch and bound that fills the memory from below. Time is cut into sections, between which nothing
 * begins or ends; each has a floor, below which nothing more will be placed. In a valley of the floors, either one of the
 * items that fit into it lies on the floor of a section, or none does and the floor rises: these are the branches, taken in
 * the section that has the fewest. Rules that cut branches off (each can be switched off, and none changes an answer):
 *   - what is unplaced in a section must fit above its floor (Moffitt 2023, MiniMalloc);
 *   - a floor is as high as the lowest offset that is possible for what is unplaced over it (ibid.);
 *   - where no item crosses from one section to the next, the problem falls apart, and one infeasible part makes it infeasible
 *     (ibid.);
 *   - an item that is not placed on its floor stands on another that is unplaced yet;
 *   - of identical items the first is placed lowest;
 *   - what is left may be the same after different beginnings: what failed once fails again. States are known by 128 bits of
 *     their hash.
 * The search restarts with other orders of the branches, in runs of Luby's lengths (Luby, Sinclair and Zuckerman 1993), and
 * sections that fail often in one run are branched on earlier in the next (Boussemart et al. 2004). No clock decides anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_pack_piece { /* a stretch of a size profile */
    int64_t begin, end;        /* time [begin, end) */
    int64_t size;              /* bytes, > 0 */
} mp_pack_piece;

typedef struct mp_pack_item {
    int piece, n_pieces; /* its profile is pieces[piece .. piece + n_pieces), sorted by time, without overlap; at least one */
    int64_t alignment;   /* of its offset; >= 1 */
    int64_t fixed;       /* the offset that it must have; -1: any offset */
    int64_t offset;      /* result */
} mp_pack_item;

typedef struct mp_pack_problem { /* owned by the caller */
    mp_pack_item *items;
    size_t n_items;
    const mp_pack_piece *pieces;
    size_t n_pieces;
} mp_pack_problem;

enum { /* rules, as bits of mp_pack_options.without */
       MP_PACK_SECTIONS = 1,
       MP_PACK_FLOORS = 2,
       MP_PACK_PARTS = 4,
       MP_PACK_SUPPORT = 8,
       MP_PACK_TWINS = 16,
       MP_PACK_MEMORY = 32,
       MP_PACK_FEWEST = 64, /* branch in the section with the fewest branches; without it: at the lowest floor, leftmost */
       MP_PACK_RULES = 127
};

typedef struct mp_pack_options {
    int64_t node_limit; /* most branches taken; <= 0: no limit */
    int64_t enough;     /* mp_pack_minimize ends at this height, or at the proof that none is as low; <= 0: at the lowest */
    bool (*stop)(void *data); /* asked now and then; true ends the search. NULL: never stop */
    void *data;
    unsigned without; /* bits of the rules that are off */
} mp_pack_options;

typedef enum mp_pack_verdict {
    MP_PACK_PLACED,     /* every item has its offset; from mp_pack_minimize: and none is lower, or it is low enough */
    MP_PACK_INFEASIBLE, /* proved: there is no placement */
    MP_PACK_LIMIT       /* the search ended early */
} mp_pack_verdict;

typedef struct mp_pack_result {
    mp_pack_verdict verdict;
    int64_t height; /* height of the placement in the items; -1: none */
    int64_t bound;  /* proved: no placement is lower */
    int64_t nodes;
} mp_pack_result;

/* Searches for offsets within `capacity` bytes; sets the items' offsets if it finds them, else leaves them. MP_INVALID: an
 * item breaks the rules above, or a sum overflows. MP_NOMEM. Exponential; at most O(s * l) work per node for s sections of l
 * items. */
mp_status mp_pack_solve(mp_pack_problem *problem, int64_t capacity, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err);

/* Searches for the lowest offsets. The node limit is for all capacities together. `known`: the height of the placement that
 * the items already have; -1: none. MP_PACK_LIMIT: the offsets are the best found, if height >= 0; bound <= lowest height <=
 * height. Otherwise as mp_pack_solve. */
mp_status mp_pack_minimize(mp_pack_problem *problem, int64_t known, const mp_pack_options *options, mp_pack_result *result,
                           mp_error *err);

/* Computes the largest sum of live sizes at one time: no placement is lower. MP_INVALID: a sum overflows. MP_NOMEM. O(n log
 * n) for n pieces. */
mp_status mp_pack_bound(const mp_pack_problem *problem, int64_t *bytes, mp_error *err);

/* Checks offsets independently of the search: aligned, as fixed, >= 0, all within `capacity`, no two items overlap.
 * MP_REFUTED: the message names the item. MP_NOMEM. O(n log n + pairs of pieces live together). */
mp_status mp_pack_check(const mp_pack_problem *problem, int64_t capacity, mp_error *err);
