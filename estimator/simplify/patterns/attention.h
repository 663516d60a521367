/* attention.h - finds attention in the operators that exporters write for it.
 *
 *     MatMul(Q, K^T) -> Mul or Div by a scale -> Where(mask, scores, constant) -> Add(mask) -> Softmax -> Dropout
 *         -> MatMul(.., V)
 *
 * Only products and softmax have to be there. The scale may be applied before the product as well, on either operand or on
 * both. Nobody outside may read what is inside.
 */
#pragma once

#include "estimator/simplify/rewrite.h"

/* Attention that was found; missing operands are -1. perm holds the orders of dimensions of Q, K and V (permQ and so on). */
typedef struct mp_attention_found {
    int q, k, v, added, positions;
    int64_t perm[3][MP_RANK_MAX];
    bool has_perm[3];
    bool k_is_turned, keeps, is_causal, is_safe;
    double scale, scale_q, scale_k, ratio, fill; /* scale is the product of all; scale_q and scale_k come before the product */
    int64_t groups;                              /* heads of Q that share one of K and V */
} mp_attention_found;

static inline const mp_tensor *mp_rewriter_tensor(const mp_rewriter *r, int tensor)
{
    return &r->model->tensors[tensor];
}

/* Transpositions bring heads to the front and back. Where the innermost dimension stays and nobody else reads the results,
 * attention reads and writes the projections' layout, and no copy with heads in front is made or kept for backward. */

/* True if the dimension d of the tensor is innermost in memory, as PyTorch lays it out: a transposition is a view, and
 * operators element by element keep the order of their input. O(operators before it). */
bool mp_attention_reads_rows(const mp_rewriter *r, int tensor, int d);
/* Reads K and V before they are repeated for heads that share them, if both are repeated alike or all heads share one. */
void mp_attention_take_out_groups(const mp_rewriter *r, mp_attention_found *found);
/* Absorbs the transpositions in front of Q, K and V. */
void mp_attention_take_in_operands(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *found);
/* Absorbs a Transpose, operator `index`, behind an attention that nobody else reads: the attention writes its output.
 * Under PyTorch's rules only if the result lies in memory as the Transpose has it. MP_NOMEM. */
mp_status mp_attention_take_in_result(mp_rewriter *r, int index);

/* Replaces a mask by the attribute `causal` if its elements, or its mp_mask, show that it hides exactly what lies above
 * the diagonal, for every sample alike: e^-1e4 is 0. O(elements of the mask). */
void mp_attention_take_causal(const mp_rewriter *r, mp_attention_found *found);
