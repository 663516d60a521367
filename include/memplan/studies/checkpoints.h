/* checkpoints.h - the checkpoints that a user sets by hand in order to follow a plan in another program. */
#pragma once

#include "memplan/plan.h"

/* The checkpoints that a user sets to follow a plan. Two kinds of forward tensors are checkpoints: tensors from which a
 * recomputation starts, and tensors that are kept for backward although their inputs are recomputed. Other tensors that are
 * kept need no checkpoint, because their neighbours are not recomputed. */
typedef struct mp_checkpoints_to_set {
    size_t n_recomputed; /* number of steps of the plan that are recomputations */
    size_t n, n_beside;  /* number of checkpoints to be set; number of other tensors that are kept for backward */
    int *storages;       /* the checkpoints to be set, in the order of their production */
} mp_checkpoints_to_set;

/* Finds the checkpoints of a plan. Release with mp_checkpoints_free. MP_NOMEM. O(reads, writes and adds of all steps). */
mp_status mp_checkpoints_find(const mp_graph *graph, const mp_plan *plan, mp_checkpoints_to_set *out, mp_error *err);
void mp_checkpoints_free(mp_checkpoints_to_set *set);
