/* pool.h - what a pool does, read from its operands when its call is prepared, for every backend. */
#ifndef EXECUTOR_POOL_H
#define EXECUTOR_POOL_H

#include "executor/kernel/kernel.h"
#include "executor/operators/sampling/sliding.h"

typedef enum mp_pool_rule { MP_POOL_MAXIMUM, MP_POOL_AVERAGE, MP_POOL_NORM } mp_pool_rule;

typedef struct mp_pool {
    mp_pool_rule rule;
    mp_sliding window;
    int64_t n_taps;       /* of one window */
    bool is_global;       /* the window is everything */
    bool counts_pads;     /* averages are over pads too */
    bool wide, backwards; /* positions of maxima are int32, not uint8; given positions count the first dimension fastest */
    double p;             /* of the norm */
} mp_pool;

/* MaxPool, AveragePool, LpPool and their global forms, forward or backward. MP_UNSUPPORTED: a type that is neither FLOAT nor
 * BFLOAT16; MP_INVALID: a window that does not fit. */
mp_status mp_pool_read(const mp_operands *x, mp_pool *out, mp_error *err);

#endif
