/* attention_spec.h - what a ScaledDotProductAttention does, read from its operands when a call is prepared, for every backend.
 */
#pragma once

#include "estimator/rules/operands/attention.h"
#include "executor/kernel/kernel.h"

/* An array as a stack of matrices; strides in elements, 0 where it is broadcast. dtype UNDEFINED: there is none. */
typedef struct mp_matrices {
    mp_dtype dtype;
    int n_batch;
    int64_t batch[MP_ARRAY_RANK], batch_stride[MP_ARRAY_RANK];
    int64_t row_stride, column_stride;
} mp_matrices;

typedef struct mp_attention_spec {
    mp_attention size;
    float scale, fill, ratio; /* ratio 0: nothing is dropped */
    bool causal, keeps, safe;
    mp_matrices q, k, v, y, added, positions; /* k: rows are columns of the scores, transposed or not */
    mp_matrices d_added;                      /* as `added`, where its gradient goes */
    bool wants[4];                            /* backward: gradients of Q, K, V and of what is added */
} mp_attention_spec;

/* MP_UNSUPPORTED: types that are neither FLOAT nor BFLOAT16, the gradient of booleans, gradients in another layout. */
mp_status mp_attention_spec_read(const mp_operands *x, mp_attention_spec *out, mp_error *err);
