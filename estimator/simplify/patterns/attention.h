/* attention.h - attention, found in what exporters write it as.
 *
 *     MatMul(Q, K^T) -> Mul or Div by a scale -> Where(mask, scores, constant) -> Add(mask) -> Softmax -> Dropout
 *         -> MatMul(.., V)
 *
 * Only products and softmax have to be there. The scale may be applied before the product as well, on either operand or on
 * both. Nobody outside may read what is inside.
 */
#pragma once

#include "estimator/simplify/rewrite.h"

/* What was found; operands that are not there are -1. Orders of dimensions are of Q, K and V (permQ and so on). */
typedef struct mp_attention_found {
    int q, k, v, added, positions;
    int64_t perm[3][MP_RANK_MAX];
    bool has_perm[3];
    bool k_is_turned, keeps, is_causal, is_safe;
    double scale, scale_q, scale_k, ratio, fill; /* scale is the product of all; of Q and K: before their product */
    int64_t groups;                              /* heads of Q that share one of K and V */
} mp_attention_found;

static inline const mp_tensor *mp_rewriter_tensor(const mp_rewriter *r, int tensor)
{
    return &r->model->tensors[tensor];
}

/* Transpositions bring heads to the front and back. Where the innermost dimension stays so and nobody else reads between,
 * attention reads and writes what the projections have, and no copy with heads in front is made, or kept for backward. */

/* Reads K and V before they are repeated for the heads that share them, where both are alike, or as the one that all share. */
void mp_attention_take_out_groups(const mp_rewriter *r, mp_attention_found *found);
/* Takes in the transpositions in front of Q, K and V. */
void mp_attention_take_in_operands(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *found);
/* A Transpose, operator `index`, behind an attention that nobody else reads: the attention writes what the Transpose does.
 * Under PyTorch's rules only where its result lies in memory as the Transpose has it. MP_NOMEM. */
mp_status mp_attention_take_in_result(mp_rewriter *r, int index);

/* Makes a mask the attribute `causal` if its elements are known, or only this is known of them (mp_mask), and it hides exactly
 * what lies above the diagonal, for every sample alike: e^-1e4 is 0. O(elements of the mask). */
void mp_attention_take_causal(const mp_rewriter *r, mp_attention_found *found);
