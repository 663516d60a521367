/* sampling.h - what the family of samplings shares: weighted taps per output position, room for sums. The tables are the same
 * for every backend. Private to backends. */
#ifndef EXECUTOR_CPU_SAMPLING_H
#define EXECUTOR_CPU_SAMPLING_H

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

/* The taps of each dimension of input 0 for Resize and Upsample of any version; to be released with mp_taps_free also on
 * failure. MP_UNSUPPORTED, MP_NOMEM. */
mp_status mp_resize_taps(const mp_operands *x, mp_taps taps[MP_ARRAY_RANK], mp_error *err);
/* What each input position gives to which outputs: the taps of the gradient. */
mp_status mp_taps_transpose(const mp_taps *taps, mp_taps *out, mp_error *err);
void mp_taps_free(mp_taps *taps);

/* What preparing Resize and Upsample finds out: `state` of their calls; backward with the tables transposed. Dimensions
 * outermost first in the memory of what is written. */
typedef struct mp_resizing {
    mp_taps taps[MP_ARRAY_RANK];   /* by dimension of the model */
    int rank, axis[MP_ARRAY_RANK]; /* the dimension whose taps these are; -1: none, the positions are the same */
    int64_t n_to[MP_ARRAY_RANK], n_from[MP_ARRAY_RANK], to_stride[MP_ARRAY_RANK], from_stride[MP_ARRAY_RANK];
    int64_t n_lines, n_chunks; /* chunks of the innermost dimension: */
    int64_t *chunks;           /* their ends, and the first and last input position they read */
    float empty;               /* of positions without taps */
} mp_resizing;

mp_status mp_prepare_resize(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_grid_sample(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_roi_align(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_max_roi_pool(const mp_operands *x, mp_call *call, mp_error *err);

/* Where the gradient of input 0 is summed up in float, plain, before it is rounded; NULL: it is a FLOAT itself. */
static inline float *mp_sampling_sums(const mp_operands *x)
{
    return x->is_backward && x->from <= 0 && x->d_in[0].dtype == MP_DTYPE_BFLOAT16 ? (float *)x->workspace : NULL;
}

#endif
