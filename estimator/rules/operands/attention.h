/* attention.h - the operator ScaledDotProductAttention (domain "memplan"): its computation and sizes.
 *
 *     Y = dropout(softmax(scale * Q K^T, masked)) V
 *
 * The operator computes row by row of Q, in tiles; it never stores the score matrix. Forward saves the logarithm of each row's
 * sum of exponentials (extra "lse"), from which backward recomputes the probabilities.
 *
 * Inputs: Q [.., rows, depth]; K [.., columns, depth], or [.., depth, columns] with transK; V [.., columns, value_depth]. The
 * batch dimensions of all three are equal. Exception: with `groups` (default 1), the last batch dimension of K and V is smaller
 * by this factor, because `groups` heads of Q share one head of K and V.
 *
 * Layout: permQ, permK and permV (like a Transpose's perm) convert the stored tensors to Q, K and V. permY converts Y to its
 * stored layout. Attention can therefore read and write heads in the projections' layout.
 *
 * Packed operands: with viewQ, viewK and viewV, input 0 holds Q, K and V, and inputs 1 and 2 are omitted. Each of these
 * attributes lists the offset of the operand's first element, its sizes and its strides, all in elements. permQ, permK, permV
 * and transK are then absent. The three views hold every element of input 0 once, so the kernel writes the whole gradient of
 * input 0. Backends create this form (executor/operators/attention/packed_operands.h).
 *
 * Optional inputs: a tensor that is added to the scores, and a boolean tensor that selects the scores to replace by `fill`
 * before the addition. Both are broadcast to [.., rows, columns]. The added tensor may have a gradient on backends that support
 * it (mp_backend.gives_mask_gradients).
 *
 * Attributes, with defaults: scale (1); transK (0); causal (0; 1: row i uses columns 0 .. i); keeps (1: scores with true
 * booleans are kept; 0: replaced); fill (-inf); ratio (0) of dropout in training; safe (0); converted (0), the number of
 * elements of a constant boolean mask that PyTorch converts to floats and saves.
 *
 * Dropout draws element (batch, row, column) of the probabilities, counted row-major, from the operator's own stream. A
 * separate Dropout operator with the same index would draw the same mask. A row of all -inf gives NaN, as with separate
 * operators. With safe = 1 the row gives zeros, as in SafeSoftmax. The lse of such a row is +inf, so its gradients are also
 * zeros. */
#pragma once

#include "estimator/model/ops.h"

/* If a score has this value or a lower one, it gets probability 0 if the row contains any larger score: e^-1e4 is 0 even in
 * double precision. In useful training, scores that are not masked do not differ by this much. */
#define MP_ATTENTION_HIDES (-1e4)

enum {
    MP_ATTENTION_ADDED = 3,
    MP_ATTENTION_POSITIONS = 4
}; /* indices of the optional inputs: the mask that is added to the scores, and the boolean mask */

typedef struct mp_attention {
    int64_t n_batch, rows, columns, depth, value_depth; /* n_batch: product of the sizes of the batch dimensions */
} mp_attention;

/* Returns the name of the attribute that contains the dimension order of a tensor: permQ, permK or permV for inputs 0 to 2,
 * permY for the output (3). */
enum { MP_ATTENTION_Y = 3 };
const char *mp_attention_perm_name(int k);
/* Returns the dimension order of a tensor from the attribute that mp_attention_perm_name names. NULL: the attribute is
 * absent, and the tensor is stored in the operator's dimension order. */
const int64_t *mp_attention_perm(const mp_operator *op, int k);
/* The view of Q, K or V in a packed tensor. Offset, sizes and strides count elements. Sizes and strides are in the operator's
 * dimension order. */
typedef struct mp_attention_view {
    int rank;
    int64_t offset;
    const int64_t *dims, *strides;
} mp_attention_view;
/* Returns the name of the attribute that contains the view of operand k: viewQ, viewK or viewV. */
const char *mp_attention_view_name(int k);
/* Reads the view of operand k from its attribute. Returns false if the operand is a tensor of its own. */
bool mp_attention_view_read(const mp_operator *op, int k, mp_attention_view *out);
/* Returns the number of dimensions of Q, K and V. */
int mp_attention_rank(const mp_model *model, const mp_operator *op);
/* Computes the sizes of operand k in the operator's dimension order from the stored sizes: dims[d] = sizes[perm[d]]. */
void mp_attention_dims(const mp_model *model, const mp_operator *op, int k, int64_t dims[MP_RANK_MAX]);
/* Returns the sizes of an attention operator whose shapes have been checked. */
mp_attention mp_attention_read(const mp_model *model, const mp_operator *op);
