/* einsum.h - operands of products. Einstein summation: which label each dimension of the operands carries, and how large each
 * label is. Matrix products: operands with their transpositions and missing dimensions resolved. */
#pragma once

#include "estimator/model/ops.h"

/* Labels are small numbers: the letters, and behind them the dimensions that an ellipsis stands for, the last one first (so
 * that the ellipses of two operands are aligned at their ends). */
enum { MP_EINSUM_LETTERS = 52, MP_EINSUM_LABELS = MP_EINSUM_LETTERS + MP_RANK_MAX, MP_EINSUM_OPERANDS = 2 };

typedef struct mp_einsum {
    int n_operands;
    int rank[MP_EINSUM_OPERANDS + 1]; /* of each operand; the last one is the result */
    int labels[MP_EINSUM_OPERANDS + 1][MP_RANK_MAX];
    int64_t size[MP_EINSUM_LABELS]; /* -1: the label does not occur */
} mp_einsum;

/* Reads the operator's equation against the shapes of its inputs: one or two operands. MP_PARSE: an equation that is not one,
 * or that does not fit the shapes; MP_UNSUPPORTED: more operands. */
mp_status mp_einsum_read(mp_infer *c, mp_einsum *einsum);

/* One operand as a stack of matrices: batch dimensions, rows, columns. A vector is one row on the left, one column on
 * the right. */
typedef struct mp_matrix {
    int n_batch;
    int64_t batch[MP_RANK_MAX];
    int64_t rows, columns;
    bool is_vector;
} mp_matrix;

/* Returns operand 0 (left) or 1 (right) of a matrix product: transA or transB swaps the last two dimensions, transBatchA or
 * transBatchB takes the first dimension behind the batch. The operand must be there with a rank of at least 1. */
mp_matrix mp_matmul_operand(const mp_model *model, const mp_operator *op, int k);
