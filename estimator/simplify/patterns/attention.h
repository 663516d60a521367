/* attention.h - recognises attention that an exporter has written as several operators.
 *
 *     MatMul(Q, K^T) -> Mul or Div by a scale -> Where(mask, scores, constant) -> Add(mask) -> Softmax -> Dropout
 *         -> MatMul(.., V)
 *
 * Only the products and the softmax are required. The scale may also be applied before the first product, to one operand or to
 * both. No operator outside the pattern may read an intermediate result. */
#pragma once

#include "estimator/simplify/rewrite.h"

/* A recognised attention; missing operands are -1. perm holds the dimension orders of Q, K and V (permQ and so on). */
typedef struct mp_attention_found {
    int q, k, v, added, positions;
    int64_t perm[3][MP_RANK_MAX];
    bool has_perm[3];
    bool k_is_turned, keeps, is_causal, is_safe;
    double scale, scale_q, scale_k, ratio,
        fill;       /* scale is the product of all scales; scale_q and scale_k are applied before the product */
    int64_t groups; /* number of heads of Q that share one head of K and V */
} mp_attention_found;

static inline const mp_tensor *mp_rewriter_tensor(const mp_rewriter *r, int tensor)
{
    return &r->model->tensors[tensor];
}

/* Transpositions move the heads dimension to the front and back. If the innermost dimension stays in place and no other
 * operator reads the results, attention can read and write the projections' layout directly. Then no transposed copy is created
 * or kept for backward. */

/* True if dimension d of the tensor is innermost in memory in PyTorch: a transposition is a view, and elementwise operators
 * keep the layout of their input. O(operators before it). */
bool mp_attention_reads_rows(const mp_rewriter *r, int tensor, int d);
/* Replaces K and V by the tensors before their repetition for shared heads, if both are repeated in the same way or all heads
 * share one. */
void mp_attention_take_out_groups(const mp_rewriter *r, mp_attention_found *found);
/* Removes the transpositions in front of Q, K and V: attention then reads the tensors before the transpositions, with the
 * permutation as an attribute. */
void mp_attention_take_in_operands(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *found);
/* Absorbs a Transpose, operator `index`, that is the only reader of an attention. The attention then writes the Transpose's
 * output. Under PyTorch's rules only if the memory layout of the result is the Transpose's. MP_NOMEM. */
mp_status mp_attention_take_in_result(mp_rewriter *r, int index);

/* Replaces a mask by the attribute `causal` if its elements, or its mp_mask, show that it hides exactly the scores above the
 * diagonal, for every sample. A mask value of -1e4 counts as hidden, because e^-1e4 is 0. O(elements of the mask). */
void mp_attention_take_causal(const mp_rewriter *r, mp_attention_found *found);
