/* attention_spec.h - the sizes, layouts and masks of a ScaledDotProductAttention, read from its operands when a call is
 * prepared. Every backend uses this description. */
#pragma once

#include "estimator/rules/operands/attention.h"
#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* An array as a stack of matrices. Strides are in elements, 0 along broadcast dimensions. dtype UNDEFINED: the array is absent.
 */
typedef struct mp_matrices {
    mp_dtype dtype;
    int n_batch;
    int64_t batch[MP_ARRAY_RANK], batch_stride[MP_ARRAY_RANK];
    int64_t row_stride, column_stride;
} mp_matrices;

typedef struct mp_attention_spec {
    mp_attention size;
    float scale, fill, ratio; /* ratio: dropout probability, 0: no dropout */
    bool causal, keeps, safe;
    mp_matrices q, k, v, y, added,
        positions;       /* k: one row of this stack per column of the scores, even if the operand K is transposed */
    mp_matrices d_added; /* the gradient of the additive mask; its strides are those of `added` */
    bool wants[4];       /* backward: true if the gradient of Q, K, V or the additive mask is requested */
} mp_attention_spec;

/* Reads the description of an attention from the operands. MP_UNSUPPORTED: a type is neither FLOAT nor BFLOAT16, the gradient
 * of a boolean mask is requested, or a gradient has another layout than its operand. */
mp_status mp_attention_spec_read(const mp_operands *x, mp_attention_spec *out, mp_error *err);

/* ---- the joint mask: all masks combined into one additive mask, for libraries that support only additive masks. */

typedef struct mp_joint_mask {
    mp_matrices added, positions; /* the additive mask and the boolean mask, which are combined; dtype UNDEFINED: absent */
    mp_matrices to;               /* the joint mask, in BFLOAT16; stride 0 along batch dimensions that share one mask */
    int64_t rows, columns, n;     /* size of the joint mask; n: number of its matrices */
    float fill;
    bool keeps;
} mp_joint_mask;

/* Plans the joint mask of an attention: its columns are contiguous, and the stride of its rows is a multiple of 16 bytes.
 * *bytes becomes the size of the joint mask. Returns false if the size overflows. */
bool mp_joint_mask_read(const mp_attention_spec *form, mp_joint_mask *out, int64_t *bytes);

/* Sets *at to the offset of matrix k of `to`, and `batch` to the matrix's index along every batch dimension. */
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

/* Returns the value that the joint mask adds to a score. Finite values stay finite in bfloat16, so that a row whose scores are
 * all masked contains no NaN. */
MP_INLINE float mp_joint_mask_value(const mp_joint_mask *m, const void *added, const void *positions, const int64_t *batch,
                                    int64_t row, int64_t column)
{
    const float lowest = -3.3895314e38f; /* the lowest bfloat16 */
    float value = 0;
    if (m->positions.dtype &&
        (((const uint8_t *)positions)[mp_matrices_at(&m->positions, batch, row, column)] != 0) != m->keeps)
        value = m->fill;
    if (m->added.dtype) value += mp_load_float(added, m->added.dtype, mp_matrices_at(&m->added, batch, row, column));
    return value < lowest && value >= -3.4028235e38f ? lowest : value;
}
