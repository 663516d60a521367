/* attention.h - the operator ScaledDotProductAttention (domain "memplan"): what it computes and how large it is.
 *
 *     Y = dropout(softmax(scale * Q K^T, masked)) V
 *
 * row by row of Q, in tiles that are never put together: the matrix of scores exists nowhere. Forward leaves the
 * logarithm of each row's sum of exponentials (extra "lse"), from which backward recomputes the probabilities.
 *
 * Inputs: Q [.., rows, depth]; K [.., columns, depth], or [.., depth, columns] with transK; V [.., columns,
 * value_depth]; the batch dimensions of all three are equal, except that with `groups` (default 1) the last one of K
 * and V is that many times smaller: so many heads of Q share one. permQ, permK and permV (a Transpose's perm) make Q, K
 * and V of the tensors in memory; Y is written transposed by permY. So heads are read where a projection left them side
 * by side, and written where the next one reads them. Optional: a tensor that is added to the scores, and one of
 * booleans that says which scores are replaced by `fill`, before that addition; both are broadcast to [.., rows,
 * columns]. What is added may have a gradient, on backends that give it (mp_backend.gives_mask_gradients). Attributes:
 * scale (1); transK (0); causal (0; 1: row i sees columns 0 .. i); keeps (1: scores where the booleans are true are
 * kept; 0: replaced); fill (-inf); ratio (0) of dropout while training.
 *
 * Dropout draws element (batch, row, column) of the probabilities, counted row-major, from the operator's own stream:
 * the mask a Dropout at this operator's index would draw. A row of all -inf is NaN, as it is operator by operator; with
 * `safe` (0) it is zeros, as SafeSoftmax has it, and its lse is +inf, so that its gradients are zeros as well.
 */
#pragma once

#include "estimator/model/ops.h"

/* A score this low, or lower, has no weight in a row where any other score is left: e^-1e4 is 0 also in double, and
 * scores that differ so much by themselves train nothing. */
#define MP_ATTENTION_HIDES (-1e4)

enum { MP_ATTENTION_ADDED = 3, MP_ATTENTION_POSITIONS = 4 }; /* the optional inputs */

typedef struct mp_attention {
    int64_t n_batch, rows, columns, depth, value_depth; /* n_batch: the product of the batch dimensions */
} mp_attention;

/* Returns the attribute's name: permQ, permK, permV for inputs 0 to 2, permY for the output (3). */
enum { MP_ATTENTION_Y = 3 };
const char *mp_attention_perm_name(int k);
/* Returns the permutation that the attribute states; NULL if there is none, and the tensor lies in memory as it is. */
const int64_t *mp_attention_perm(const mp_operator *op, int k);
/* Gives the sizes of input k as the operator reads it, from those of the tensor in memory: dims[d] = sizes[perm[d]]. */
void mp_attention_dims(const mp_model *model, const mp_operator *op, int k, int64_t dims[MP_RANK_MAX]);
/* Returns the sizes of an operator whose shapes were checked. */
mp_attention mp_attention_read(const mp_model *model, const mp_operator *op);
