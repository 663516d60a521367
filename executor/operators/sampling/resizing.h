/* resizing.h - Resize, Upsample and their gradients as a loop nest with a table of taps per resized axis, for every backend. */
#pragma once

#include "executor/operators/sampling/taps.h"

/* Dimensions outermost first in the memory of what is written; backward with the tables transposed. */
typedef struct mp_resizing {
    mp_taps taps[MP_ARRAY_RANK];   /* by dimension of the model */
    int rank, axis[MP_ARRAY_RANK]; /* the dimension whose taps these are; -1: none, the positions are the same */
    int64_t n_to[MP_ARRAY_RANK], n_from[MP_ARRAY_RANK], to_stride[MP_ARRAY_RANK], from_stride[MP_ARRAY_RANK];
    int64_t n_lines; /* combinations of the outer dimensions */
    float empty;     /* of positions without taps */
} mp_resizing;

/* To be released with mp_resizing_free also on failure. MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16, and as
 * mp_resize_taps; MP_NOMEM. */
mp_status mp_resizing_read(const mp_operands *x, mp_resizing *out, mp_error *err);
void mp_resizing_free(mp_resizing *resizing);
