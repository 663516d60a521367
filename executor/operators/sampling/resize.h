/* resize.h - Resize and Upsample of any version as tables, for every backend: which positions of the input each position of the
 * output reads along an axis, and with what weight; the gradient is the transposed table.
 */
#pragma once

#include "executor/kernel/kernel.h"

/* Along one axis, output position o is the sum of weight[k] * input[index[k]] for k in [start[o], start[o + 1]). */
typedef struct mp_taps {
    int64_t n_in, n_out;
    int32_t *start, *index;
    float *weight;
    int most;    /* the largest number of taps of one position */
    int uniform; /* 1, 2 or 4: every position has as many; 0: they differ */
    bool same;   /* every position is the input's own */
} mp_taps;

/* Dimensions outermost first in the memory of what is written; backward with the tables transposed. */
typedef struct mp_resizing {
    mp_taps taps[MP_ARRAY_RANK];   /* by dimension of the model */
    int rank, axis[MP_ARRAY_RANK]; /* the dimension whose taps these are; -1: none, the positions are the same */
    int64_t n_to[MP_ARRAY_RANK], n_from[MP_ARRAY_RANK], to_stride[MP_ARRAY_RANK], from_stride[MP_ARRAY_RANK];
    int64_t n_lines; /* combinations of the outer dimensions */
    float empty;     /* of positions without taps */
} mp_resizing;

/* To be released with mp_resizing_free also on failure. MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16, a mode that
 * is not known, sizes that are computed while it runs; MP_NOMEM. */
mp_status mp_resizing_read(const mp_operands *x, mp_resizing *out, mp_error *err);
void mp_resizing_free(mp_resizing *resizing);
