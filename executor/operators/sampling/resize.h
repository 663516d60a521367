/* resize.h - Resize and Upsample of any version as tables, for every backend. A table lists, for each position of the output
 * along an axis, the positions of the input that it reads, and their weights; the gradient has the transposed table.
 */
#pragma once

#include "executor/kernel/kernel.h"

/* Along one axis, output position o is the sum of weight[k] * input[index[k]] for k in [start[o], start[o + 1]). */
typedef struct mp_taps {
    int64_t n_in, n_out;
    int32_t *start, *index;
    float *weight;
    int most;    /* the largest number of taps of one position */
    int uniform; /* 1, 2 or 4: every position has this many taps; else 0 */
    bool same;   /* true: position o is position o of the input */
} mp_taps;

/* A Resize, or its gradient with transposed tables. Dimensions are in the order of the written memory, outermost first. */
typedef struct mp_resizing {
    mp_taps taps[MP_ARRAY_RANK];   /* indexed by the model's dimension */
    int rank, axis[MP_ARRAY_RANK]; /* axis[d]: index of dimension d's taps; -1: positions stay the same */
    int64_t n_to[MP_ARRAY_RANK], n_from[MP_ARRAY_RANK], to_stride[MP_ARRAY_RANK], from_stride[MP_ARRAY_RANK];
    int64_t n_lines; /* number of lines along the innermost dimension */
    float empty;     /* value of positions without taps */
} mp_resizing;

/* Describes a Resize in *out, to be released with mp_resizing_free also on failure. MP_UNSUPPORTED: a type that is neither
 * FLOAT nor BFLOAT16, an unknown mode, or sizes that are computed while it runs; MP_NOMEM. */
mp_status mp_resizing_read(const mp_operands *x, mp_resizing *out, mp_error *err);
void mp_resizing_free(mp_resizing *resizing);
