/* attention_pattern.h - attention, found in what exporters write it as.
 *
 *     MatMul(Q, K^T) -> Mul or Div by a scale -> Where(mask, scores, constant) -> Add(mask) -> Softmax -> Dropout -> MatMul(..,
 * V)
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

/* Why a softmax times a matrix is not recognised. */
typedef struct mp_attention_gap {
    int op, tensor;  /* what stands in the way; -1: nothing that has a name */
    const char *why; /* a clause that follows its name; NULL: this is no softmax times a matrix */
} mp_attention_gap;

/* Is operator `root` the product with V of an attention? Then its operators are `pattern`'s, and `found` says what was found;
 * else `gap` says why not, of the attempt that came furthest. has_gradient: per tensor, may it be no mask because it has one?
 * O(pattern). */
bool mp_attention_match(const mp_rewriter *r, int root, const bool *has_gradient, mp_pattern *pattern,
                        mp_attention_found *found, mp_attention_gap *gap);
