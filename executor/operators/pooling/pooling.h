/* pooling.h - what a pool does, read from its operands when its call is prepared, for every backend. */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/operators/pooling/sliding.h"

typedef enum mp_pooling_rule { MP_POOLING_MAXIMUM, MP_POOLING_AVERAGE, MP_POOLING_NORM } mp_pooling_rule;

typedef struct mp_pooling {
    mp_pooling_rule rule;
    mp_sliding window;
    int64_t n_taps;       /* of one window */
    bool is_global;       /* the window is everything */
    bool counts_pads;     /* averages are over pads too */
    bool wide, backwards; /* positions of maxima are int32, not uint8; given positions count the first dimension fastest */
    double p;             /* of the norm */
} mp_pooling;

/* MaxPool, AveragePool, LpPool and their global forms, forward or backward. MP_UNSUPPORTED: a type that is neither FLOAT nor
 * BFLOAT16; MP_INVALID: a window that does not fit. */
mp_status mp_pooling_read(const mp_operands *x, mp_pooling *out, mp_error *err);
