/* fates.h - the fate of a tensor of the forward pass under an order of steps: kept, recomputed, or read by no backward node. */
#ifndef MEMPLAN_FATES_H
#define MEMPLAN_FATES_H

#include "memplan/graph.h"
#include "memplan/timeline.h"

typedef enum mp_fate {
    MP_FATE_NONE,         /* not produced by a forward or loss node, always live, or never produced */
    MP_FATE_FORWARD_ONLY, /* no backward node reads it */
    MP_FATE_RECOMPUTED,   /* backward reads it, from a second run of its node or a later one only */
    MP_FATE_KEPT,         /* backward reads what the first run produced */
    MP_N_FATES
} mp_fate;

/* The fate of every storage, into fates[0 .. n_storages), under steps[0..n). A tensor that only other recomputations read is
 * RECOMPUTED as well. MP_NOMEM. O(list lengths of the steps). */
mp_status mp_fates(const mp_graph *graph, const mp_step *steps, size_t n, mp_fate *fates, mp_error *err);

#endif
