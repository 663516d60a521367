/* attention_spec.h - what a ScaledDotProductAttention does, read from its operands when a call is prepared, for every backend.
 */
#pragma once

#include "estimator/rules/operands/attention.h"
#include "executor/kernel/element.h"
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

/* ---- its masks as a single one that is added, for libraries that know no other. */

typedef struct mp_joint_mask {
    mp_matrices added, positions; /* what there is, dtype UNDEFINED: nothing */
    mp_matrices to;               /* what they become, in BFLOAT16; stride 0 where all matrices of a batch dimension share it */
    int64_t rows, columns, n;     /* n: matrices of `to` */
    float fill;
    bool keeps;
} mp_joint_mask;

/* How the masks of this attention become one whose columns lie side by side, and whose rows begin 16 bytes apart or a multiple
 * of that; *bytes: what it takes. False: more than fits into a number. */
bool mp_joint_mask_read(const mp_attention_spec *form, mp_joint_mask *out, int64_t *bytes);

/* Matrix k of `to` begins at *at; `batch` is its place in the batch dimensions. */
MP_INLINE void mp_joint_mask_matrix(const mp_joint_mask *m, int64_t k, int64_t batch[MP_ARRAY_RANK], int64_t *at)
{
    *at = 0;
    for (int d = m->to.n_batch - 1; d >= 0; d--) {
        batch[d] = 0;
        if (!m->to.batch_stride[d]) continue;
        batch[d] = k % m->to.batch[d];
        k /= m->to.batch[d];
        *at += batch[d] * m->to.batch_stride[d];
    }
}

MP_INLINE int64_t mp_matrices_at(const mp_matrices *m, const int64_t *batch, int64_t row, int64_t column)
{
    int64_t at = row * m->row_stride + column * m->column_stride;
    for (int d = 0; d < m->n_batch; d++) at += batch[d] * m->batch_stride[d];
    return at;
}

/* What is added to a score. A finite number stays one in bfloat16, so that a row of which all is hidden remains one of numbers.
 */
MP_INLINE float mp_joint_mask_value(const mp_joint_mask *m, const void *added, const void *positions, const int64_t *batch,
                                    int64_t row, int64_t column)
{
    const float lowest = -3.3895314e38f; /* of bfloat16 */
    float value = 0;
    if (m->positions.dtype &&
        (((const uint8_t *)positions)[mp_matrices_at(&m->positions, batch, row, column)] != 0) != m->keeps)
        value = m->fill;
    if (m->added.dtype) value += mp_load_float(added, m->added.dtype, mp_matrices_at(&m->added, batch, row, column));
    return value < lowest && value >= -3.4028235e38f ? lowest : value;
}
