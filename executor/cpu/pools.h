/* pools.h - the parts of the family of pools. Private to backends. */
#ifndef EXECUTOR_CPU_POOLS_H
#define EXECUTOR_CPU_POOLS_H

#include "executor/kernel.h"

typedef enum mp_pool_rule { MP_POOL_MAXIMUM, MP_POOL_AVERAGE, MP_POOL_NORM } mp_pool_rule;

/* What preparing finds out: `state` of the calls of all but MaxUnpool. Index k of a window counts its taps row-major; the saved
 * index of an output lies at its place in the output, as INT32 (wide_index) or UINT8. */
typedef struct mp_pooling {
    mp_pool_rule rule;
    bool is_global;
    int n;                                         /* spatial dimensions */
    int64_t in[MP_ARRAY_RANK], out[MP_ARRAY_RANK]; /* spatial sizes */
    int64_t kernel[MP_ARRAY_RANK], stride[MP_ARRAY_RANK], dilation[MP_ARRAY_RANK], begin[MP_ARRAY_RANK], end[MP_ARRAY_RANK];
    int64_t n_taps, n_out;
    int64_t channels, block, n_blocks; /* block: channels that are worked on at once, contiguous */
    bool counts_pads, wide_index, column_major;
    double p;
} mp_pooling;

mp_status mp_prepare_max_unpool(const mp_operands *x, mp_call *call, mp_error *err);

#endif
