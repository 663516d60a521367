/* floor_held.h - what a tensor costs that can be recomputed: it is live, or it is recomputed. For the planner's own use.
 *
 * Let a node j that runs once read s in every alternative, and let s be produced through a chain of repeatable nodes P0 -> ..
 * -> s, each reading the former's output in every alternative. The s that j reads comes from one run of P0, the last one that
 * matters. Let v be a node that runs once and comes before j in every order. If P0's run comes before v, then at v some storage
 * of the chain is live, beside all that v's own floor counts, unless v itself names one: so at least the smallest of the chain,
 * b. If that is more than F for each v in a set D, then a schedule of at most F runs P0 after all of D, and before j: with all
 * that P0 needs then, and with the least that storages produced once take at such a moment (floor_cut.h). If this is more than
 * F too, no schedule fits in F. The smallest F for which it isn't is the floor of (j, s, P0).
 *
 * Example: a convolution of the batch produces c of 10 bytes with 35 of workspace, a relu produces a in the memory of c; v
 * reads g and produces h, of 10 each, with 20 of workspace; j reads h and a. Either a or c is live at v: 40 and 10. Or the
 * convolution runs after v, beside h: 45 and 10. Less than 50 won't do.
 */
#pragma once

#include "memplan/floor.h"
#include "planner/floor/floor_cut.h"

/* Nodes by bytes. */
typedef struct mp_floor_rank {
    int64_t bytes;
    int node;
} mp_floor_rank;

/* Most bytes first, of equal ones the lower node. O(n log n). */
void mp_floor_rank_sort(mp_floor_rank *ranks, size_t n);

typedef struct mp_floor_needs {
    int64_t *least_bytes; /* per node: what is there at least at its first run, less static bytes */
    int64_t *again_bytes; /* per node: what it needs itself at least, at any of its runs */
} mp_floor_needs;

/* Raises *bytes (less static ones) to the highest floor of a (j, s, P0), and then tells *reason of it. Stops early, with what
 * it has, when the cuts have cost `most_work`. MP_NOMEM. O(nodes) per (j, s, P0), of which a node has few, beside the cuts. */
mp_status mp_floor_held(mp_floor_cut *cut, const mp_floor_needs *needs, int64_t most_work, int64_t *bytes,
                        mp_floor_reason *reason, mp_error *err);
