/* matmul.h - what a matrix product multiplies: operands with their transpositions and missing dimensions resolved. */
#pragma once

#include "estimator/model/ops.h"

/* One operand as a stack of matrices: batch dimensions, rows, columns. A vector is one row on the left, one column on the
 * right. */
typedef struct mp_matrix {
    int n_batch;
    int64_t batch[MP_RANK_MAX];
    int64_t rows, columns;
    bool is_vector;
} mp_matrix;

/* Operand 0 (left) or 1 (right) of MatMul and its relatives: transA or transB swaps the last two dimensions, transBatchA or
 * transBatchB takes the first dimension behind the batch. The operand must be there with a rank of at least 1. */
mp_matrix mp_matmul_operand(const mp_model *model, const mp_operator *op, int k);
