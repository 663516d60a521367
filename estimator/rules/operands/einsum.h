/* einsum.h - operands of products. For Einsum: the label of each dimension of the operands, and the size of each label. For
 * matrix products: the operands as stacks of matrices, after transposition attributes. */
#pragma once

#include "estimator/model/ops.h"

/* Labels are small numbers. Letters come first, then the dimensions of an ellipsis in reverse order, so that the ellipses of
 * two operands are aligned at their ends. */
enum { MP_EINSUM_LETTERS = 52, MP_EINSUM_LABELS = MP_EINSUM_LETTERS + MP_RANK_MAX, MP_EINSUM_OPERANDS = 2 };

typedef struct mp_einsum {
    int n_operands;
    int rank[MP_EINSUM_OPERANDS + 1]; /* per operand, and last for the result: its number of dimensions */
    int labels[MP_EINSUM_OPERANDS + 1][MP_RANK_MAX];
    int64_t size[MP_EINSUM_LABELS]; /* per label: the size of its dimensions; -1: the label does not occur */
} mp_einsum;

/* Reads the equation of an Einsum operator and the shapes of its one or two inputs. MP_PARSE: the equation is invalid or
 * does not match the shapes. MP_UNSUPPORTED: there are more than two inputs. */
mp_status mp_einsum_read(mp_infer *c, mp_einsum *einsum);

/* An operand of a matrix product as a stack of matrices: batch dimensions, rows, columns. A vector is one row as left
 * operand, one column as right operand. */
typedef struct mp_matrix {
    int n_batch;
    int64_t batch[MP_RANK_MAX];
    int64_t rows, columns;
    bool is_vector;
} mp_matrix;

/* Returns operand 0 (left) or 1 (right) of a matrix product. The attribute transA or transB swaps the last two dimensions.
 * transBatchA or transBatchB moves the first dimension behind the other batch dimensions. The operand must not be omitted,
 * and its rank must be at least 1. */
mp_matrix mp_matmul_operand(const mp_model *model, const mp_operator *op, int k);
