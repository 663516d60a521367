/* loss_chunks.h - cuts the head of a network and its loss into chunks of rows, so that the logits never exist as a whole.
 *
 *     logits = MatMul(x, W); loss = SoftmaxCrossEntropyLoss(logits, labels)      becomes, for 2 chunks:
 *
 *     x0, x1 = Split(x);  labels0, labels1 = Split(labels)
 *     logits0 = MatMul(x0, W);  loss0 = SoftmaxCrossEntropyPart(logits0, labels0, -, labels)
 *     logits1 = MatMul(x1, W);  loss1 = SoftmaxCrossEntropyPart(logits1, labels1, -, labels)
 *     loss = Sum(loss0, loss1)
 *
 * The training graph runs backward of a chunk directly after the loss of the chunk (mp_operator.chunk). The gradient of W sums
 * over the chunks in their order, and the gradients of x0 and x1 are concatenated. Every chunk reads W, and its products are
 * smaller. The method is that of fused linear cross entropy (Liger Kernel, Hsu et al. 2024, arXiv:2410.10989).
 *
 * The head is the chain of operators between a product with a matrix and the loss, if each row of the logits depends only on
 * the same row of x: the product, a bias, elementwise functions, views, and selections of rows. Labels that are ignored, class
 * weights and label smoothing stay exact, because each part divides by the weights of all labels. */
#pragma once

#include "estimator/model/model.h"

enum { MP_ROW_CHUNKS_MAX = 4096 };

typedef struct mp_loss_chunks {
    int n;               /* number of chunks; 0: the model has no such head, or n_wanted is 1 */
    int64_t n_rows;      /* number of rows of the logits */
    const char *product; /* name of the head's product */
    const char *reason;  /* if n is 0: the reason, for a message */
} mp_loss_chunks;

/* Cuts the head of a simplified model with the loss `loss` into n_wanted chunks of equal size. Earlier chunks are one row
 * longer if the rows cannot be divided equally. At most one chunk per row. A declared output within the head is no longer an
 * output. The model stays sorted, so indices of operators change. MP_NOMEM. O(operands). */
mp_status mp_model_chunk_loss(mp_model *model, int loss, int n_wanted, mp_loss_chunks *out, mp_error *err);

/* Returns `chunk` if an operator of this chunk produces the tensor, or if only operators of this chunk read it; else 0. An
 * operator inserted between the tensor and the chunk belongs to the returned chunk, because the backward of a chunk directly
 * follows its loss. O(operands). */
int mp_loss_chunk_of(const mp_model *model, int chunk, int tensor);
