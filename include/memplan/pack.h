/* pack.h - exact offsets: items with lifetimes and sizes in one block of bytes, with proofs.
 *
 * An item lives in pieces of time; in each it occupies its offset and what is above it, up to the size of the piece. Two items
 * that are there at one time must not overlap. This is dynamic storage allocation (NP-hard: Garey, Johnson 1979, SR2).
 *
 * Method: a depth-first search that fills the block from below. Time is cut into sections between which nothing begins or ends;
 * each has a floor, below which nothing else will lie. What lies lowest over a section in a dip of the floors is one of the
 * items that fit into the dip, or nothing that low, and then the floor rises: these are the branches, taken where there are
 * fewest. Rules that cut branches off (each can be switched off, and none changes an answer):
 *   - what is still to be placed in a section fits above its floor (Moffitt 2023, MiniMalloc);
 *   - a floor is as high as the lowest offset of what is still to come over it (ibid.);
 *   - where nothing crosses, what is left falls apart, and one failing part fails all (ibid.);
 *   - an item that does not lie on its floor lies on another that is still to come;
 *   - of items that are alike the first lies lowest;
 *   - what is left is the same after different beginnings: what has failed once fails again. States are known by 128 bits of
 *     their hash.
 * The search starts anew with other orders of the branches, in runs of Luby's lengths (Luby, Sinclair, Zuckerman 1993), and
 * what fails often in one run is branched on earlier in the next (Boussemart et al. 2004). No clock decides anything.
 */
#ifndef MEMPLAN_PACK_H
#define MEMPLAN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_pack_piece { /* of an item's life */
    int64_t lower, upper;      /* it is there at lower <= t < upper */
    int64_t size;              /* bytes, > 0 */
} mp_pack_piece;

typedef struct mp_pack_item {
    int piece, n_pieces; /* pieces[piece .. piece + n_pieces), by time, without overlap; at least one */
    int64_t alignment;   /* of the offset; >= 1 */
    int64_t fixed;       /* where it has to lie; -1: anywhere */
    int64_t offset;      /* answer */
} mp_pack_item;

typedef struct mp_packing { /* owned by the caller */
    mp_pack_item *items;
    size_t n_items;
    const mp_pack_piece *pieces;
    size_t n_pieces;
} mp_packing;

enum { /* rules, as bits of mp_pack_options.without */
       MP_PACK_SECTIONS = 1,
       MP_PACK_FLOORS = 2,
       MP_PACK_PARTS = 4,
       MP_PACK_SUPPORT = 8,
       MP_PACK_TWINS = 16,
       MP_PACK_MEMORY = 32,
       MP_PACK_FEWEST = 64, /* branch where there are fewest; without: at the lowest floor, leftmost */
       MP_PACK_RULES = 127
};

typedef struct mp_pack_options {
    int64_t node_limit; /* branches taken; <= 0: none */
    int64_t enough;     /* mp_pack_minimize ends when it has this height, or the proof that there is none; <= 0: goes on */
    bool (*stop)(void *data); /* asked now and then; true ends the search. NULL: never */
    void *data;
    unsigned without; /* rules that are off */
} mp_pack_options;

typedef enum mp_pack_verdict {
    MP_PACK_PLACED,     /* every item has its offset; of mp_pack_minimize: and nothing is lower, or it is low enough */
    MP_PACK_INFEASIBLE, /* proved: there is no placement */
    MP_PACK_LIMIT       /* the search was cut short */
} mp_pack_verdict;

typedef struct mp_pack_result {
    mp_pack_verdict verdict;
    int64_t height; /* of the offsets in the items; -1: there are none */
    int64_t bound;  /* no placement is lower */
    int64_t nodes;
} mp_pack_result;

/* Looks for offsets within `capacity` bytes; the items' offsets are set if it finds them, else untouched. MP_INVALID: an item
 * that breaks the rules above, or sums that do not fit. MP_NOMEM. Exponential; O(s * l) work per node at most for s sections
 * of l items. */
mp_status mp_pack_solve(mp_packing *packing, int64_t capacity, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err);

/* Looks for the lowest offsets. The node limit is for all capacities that are tried. `known` is the height of a placement
 * whose offsets are in the items already; -1: there is none. MP_PACK_LIMIT: the offsets are the best that were found, if height
 * >= 0; bound <= lowest <= height. The rest as mp_pack_solve. */
mp_status mp_pack_minimize(mp_packing *packing, int64_t known, const mp_pack_options *options, mp_pack_result *result,
                           mp_error *err);

/* The largest sum of sizes at one time. MP_INVALID as above. O(n log n). */
mp_status mp_pack_bound(const mp_packing *packing, int64_t *bytes, mp_error *err);

/* Whether the offsets hold: alignment, fixed offsets, 0 <= offset, everything within `capacity`, no two overlap. Knows nothing
 * of the search. MP_REFUTED says which item; MP_NOMEM. O(n log n + pairs that meet). */
mp_status mp_pack_check(const mp_packing *packing, int64_t capacity, mp_error *err);

#endif
