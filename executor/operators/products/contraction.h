/* contraction.h - Einsum and its gradients as loops over labelled dimensions, for every backend. Each element of the result y
 * is a sum of products a b. The sum runs over all labels that y lacks. */
#pragma once

#include "estimator/rules/operands/einsum.h"
#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

typedef struct mp_contraction {
    /* n_kept: number of labels in y; n_summed: number of all other labels. Labels of size 1 are omitted */
    int n_kept, n_summed;
    int kept[MP_EINSUM_LABELS], summed[MP_EINSUM_LABELS];
    int64_t size[MP_EINSUM_LABELS], stride[3][MP_EINSUM_LABELS]; /* strides in y, a, b; 0: the array lacks the label */
    int64_t n_results, n_terms;
} mp_contraction;

/* The state of Einsum's calls: the sums of forward, and of the gradients of operands 0 and 1. */
typedef struct mp_einsum_sums {
    mp_contraction sum[3];
} mp_einsum_sums;

/* Prepares a call, whose state is an mp_einsum_sums; the backend sets call->run. MP_UNSUPPORTED: the type is neither FLOAT nor
 * BFLOAT16, or there are too many operands; MP_PARSE: the equation does not match the operands; MP_NOMEM. */
mp_status mp_einsum_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* Computes the offsets of result k in y, and of its first term in a and b. */
MP_INLINE void mp_contraction_result(const mp_contraction *c, int64_t k, int64_t at[3])
{
    at[0] = at[1] = at[2] = 0;
    for (int d = c->n_kept - 1; d >= 0; d--) {
        int label = c->kept[d];
        for (int r = 0; r < 3; r++) at[r] += k % c->size[label] * c->stride[r][label];
        k /= c->size[label];
    }
}

/* Adds to *a and *b the distances of term t from the first term. */
MP_INLINE void mp_contraction_term(const mp_contraction *c, int64_t t, int64_t *a, int64_t *b)
{
    for (int d = c->n_summed - 1; d >= 0; d--) {
        int label = c->summed[d];
        *a += t % c->size[label] * c->stride[1][label];
        *b += t % c->size[label] * c->stride[2][label];
        t /= c->size[label];
    }
}
