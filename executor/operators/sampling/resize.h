/* resize.h - Resize and Upsample of any version as tables, for every backend. A table lists, for each output position along an
 * axis, its taps: the input positions that it reads, and their weights. The gradient uses the transposed table. */
#pragma once

#include "executor/kernel/kernel.h"

/* Along one axis, output position o is the sum of weight[k] * input[index[k]] for k in [start[o], start[o + 1]). */
typedef struct mp_taps {
    int64_t n_in, n_out;
    int32_t *start, *index;
    float *weight;
    int most;    /* maximum number of input positions that an output position reads */
    int uniform; /* number of input positions that an output position reads, if it is 1, 2 or 4 for all output positions alike;
                    else 0 */
    bool same;   /* true: every output position o equals input position o */
} mp_taps;

/* A Resize, or its gradient with transposed tables. Dimensions are sorted by the strides of the written array, outermost first.
 */
typedef struct mp_resizing {
    mp_taps taps[MP_ARRAY_RANK];   /* for each dimension of the model's tensor: its table of taps */
    int rank, axis[MP_ARRAY_RANK]; /* axis[d]: index in taps[] of the table of dimension d; -1: the dimension is not resized */
    int64_t n_to[MP_ARRAY_RANK], n_from[MP_ARRAY_RANK], to_stride[MP_ARRAY_RANK], from_stride[MP_ARRAY_RANK];
    int64_t n_lines; /* number of lines along the innermost dimension */
    float empty;     /* the value of an output position that reads no input position */
} mp_resizing;

/* Describes a Resize in *out. The caller releases it with mp_resizing_free, even after a failure. MP_UNSUPPORTED: the type is
 * neither FLOAT nor BFLOAT16, the mode is unknown, or sizes are only known at run time; MP_NOMEM. */
mp_status mp_resizing_read(const mp_operands *x, mp_resizing *out, mp_error *err);
void mp_resizing_free(mp_resizing *resizing);
