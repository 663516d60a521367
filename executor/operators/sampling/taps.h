/* taps.h - weighted taps per output position: Resize and Upsample along one axis as a table, for every backend. */
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

/* The taps of each dimension of input 0 for Resize and Upsample of any version; to be released with mp_taps_free also on
 * failure. MP_UNSUPPORTED: a mode that is not known, or sizes that are computed while it runs; MP_NOMEM. */
mp_status mp_resize_taps(const mp_operands *x, mp_taps taps[MP_ARRAY_RANK], mp_error *err);
/* What each input position gives to which outputs: the taps of the gradient. */
mp_status mp_taps_transpose(const mp_taps *taps, mp_taps *out, mp_error *err);
void mp_taps_free(mp_taps *taps);
