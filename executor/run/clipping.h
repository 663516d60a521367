/* clipping.h - gradient clipping by the global norm. Computes the scale by which all gradients are multiplied, so that their
 * norm is at most the limit. Gradients may be sharded over ranks.
 *
 * Squares are summed in double: within a gradient in blocks, then gradient by gradient. If gradients are sharded, each rank
 * sums its own parts, and these sums are added in the order of the ranks. Stages of a pipeline hold different gradients; the
 * sums of the stages are also added in order. On one rank the order of summation is different, so the norm may differ in the
 * last bits of a double. The scale is rounded to a float, which hides this difference in nearly all cases.
 *
 * With tp, each rank holds a part of the gradients of split operators. All other gradients are replicated over the ranks of
 * tp, and the first rank's copy counts. If several stages hold a parameter, its gradient is equal on these stages and counts
 * on the first of them. */
#pragma once

#include "executor/run/addresses.h"

/* Sums of squares on one rank: of gradients split over tp, and of gradients replicated over tp. */
typedef struct mp_clipping_sums {
    double split, alike;
} mp_clipping_sums;

typedef struct mp_clipping {
    mp_update *gradients; /* the gradients of the trained parameters, one entry each; gradients split over tp come first */
    int *of; /* per node of the program: index in `gradients` of the parameter that the node updates; -1: the node is no update,
                or another stage counts the gradient */
    size_t n, n_split;
    mp_clipping_sums *sums; /* the sums of squares of all ranks, by rank */
} mp_clipping;

/* Lists the gradients of a program. The lists are allocated in the pool. MP_NOMEM. O(nodes). */
mp_status mp_clipping_open(const mp_program *program, int n_ranks, mp_pool *pool, mp_clipping *out, mp_error *err);
/* Runs the step of the plan that computes the clipping scale. If gradients are sharded or differ between stages, it waits for
 * the other ranks. MP_IO. O(steps + elements). */
mp_status mp_clipping_run(mp_clipping *clipping, const mp_addresses *addresses, const mp_ready_step *step,
                          mp_communicator *world, double timeout, mp_error *err);
