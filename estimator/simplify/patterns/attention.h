/* attention.h - recognises attention that an exporter has written as several operators.
 *
 *     MatMul(Q, K^T) -> Mul or Div by a scale -> Where(mask, scores, constant) -> Add(mask) -> Softmax -> Dropout
 *         -> MatMul(.., V)
 *
 * Only the products and the softmax are required. The scale may also be applied before the first product, to one operand or to
 * both. No operator outside the pattern may read an intermediate result. */
#pragma once

#include "estimator/simplify/rewrite.h"

/* A recognised attention: indices of its operands; -1: the attention has no such operand. perm contains the dimension orders
 * of Q, K and V (attributes permQ, permK, permV). */
typedef struct mp_attention_found {
    int q, k, v, added, positions;
    int64_t perm[3][MP_RANK_MAX];
    bool has_perm[3];
    bool k_is_turned, keeps, is_causal, is_safe;
    double scale, scale_q, scale_k, ratio, fill; /* scale is the product of all scales. scale_q and scale_k are the parts that
                                                    are applied before the product of queries and keys */
    int64_t groups;                              /* number of heads of Q that share one head of K and V */
    int64_t n_converted; /* number of elements of a constant boolean mask, which PyTorch converts to floats in each call; 0: the
                            mask is no such mask */
} mp_attention_found;

static inline const mp_tensor *mp_rewriter_tensor(const mp_rewriter *r, int tensor)
{
    return &r->model->tensors[tensor];
}

/* Exporters transpose the operands of attention, so that the heads dimension is in front, and transpose the result back. If
 * the innermost dimension stays in place and no other operator reads the transposed tensors, attention can read and write
 * the untransposed layout directly. No transposed copy is then created or kept for backward. */

/* True if dimension d of the tensor is innermost in PyTorch's memory layout. In PyTorch, a transposition is a view, and
 * elementwise operators keep the layout of their input. O(operators before the tensor). */
bool mp_attention_reads_rows(const mp_rewriter *r, int tensor, int d);
/* If the attention with last product `root` lets several heads share K and V, replaces K and V by the tensors before their
 * repetition. K and V must be repeated in the same way, or all heads must share one. */
void mp_attention_take_out_groups(const mp_rewriter *r, int root, mp_attention_found *found);
/* Only for PyTorch's rules. Takes in the mask of the attention with last product `root`. There are three cases:
 *
 * - is_causal=True: PyTorch stores no mask, so the attribute `causal` replaces the operand.
 * - A boolean mask, which the exporter has converted to 0 and a value that hides: each call stores its own conversion.
 * - A mask of floats: PyTorch saves the operand itself. */
void mp_attention_take_mask(const mp_rewriter *r, int root, mp_attention_found *found);
/* Removes the transpositions of Q, K and V. Attention then reads the tensors before the transpositions, with the
 * permutations as attributes. */
void mp_attention_take_in_operands(const mp_rewriter *r, mp_pattern *pattern, mp_attention_found *found);
/* Removes a Transpose, operator `index`, that is the only reader of an attention's result. The attention then writes the
 * transposed tensor. Under PyTorch's rules, this applies only if PyTorch's attention stores its result in this layout.
 * MP_NOMEM. */
mp_status mp_attention_take_in_result(mp_rewriter *r, int index);

/* Replaces a mask operand by the attribute `causal` if the mask hides exactly the scores above the diagonal, for every
 * sample. This is known from the elements of the mask or from its mp_mask. A mask value of -1e4 counts as hidden, because
 * e^-1e4 is 0. O(elements of the mask). */
void mp_attention_take_causal(const mp_rewriter *r, mp_attention_found *found);
