/* clipping.h - the factor that scales the norm of all gradients down to the limit, with parts of them on other ranks.
 *
 * Squares are summed in double: of each gradient in its blocks, gradient after gradient. Where ranks have parts, each sums
 * those of its own so, and the sums are added up in the order of the ranks; stages of a pipeline, which have different
 * gradients, likewise. That is another order than that of ranks which have all gradients whole, so the norm differs from theirs
 * in the last bits of a double; the factor is a float, and is nearly always the same.
 *
 * Of what operators split (tp) each rank has a part; other gradients all ranks of tp have alike, and those of the first count.
 * A parameter that several stages hold has the same gradient on all of them, which counts on the first.
 */
#pragma once

#include "executor/run/addresses.h"

/* The squares that a rank has: of gradients in parts for tp, and of others. */
typedef struct mp_clipping_sums {
    double split, alike;
} mp_clipping_sums;

typedef struct mp_clipping {
    mp_update *gradients; /* per trained parameter: first those that operators split */
    int *of;              /* per node of the program: that of the parameter which it updates; -1: it counts on another stage */
    size_t n, n_split;
    mp_clipping_sums *sums; /* of all ranks */
} mp_clipping;

/* The lists lie in the pool. MP_NOMEM. O(nodes). */
mp_status mp_clipping_open(const mp_program *program, int n_ranks, mp_pool *pool, mp_clipping *out, mp_error *err);
/* Runs the step that computes the factor; waits for the other ranks if they have parts, or other gradients. MP_IO. O(steps +
 * elements). */
mp_status mp_clipping_run(mp_clipping *clipping, const mp_addresses *addresses, const mp_ready_step *step,
                          mp_communicator *world, double timeout, mp_error *err);
