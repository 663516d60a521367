/* stacks.h - the operands of matrix products as stacks of matrices, described by strides. Every backend uses this description.
 */
#pragma once

#include "executor/kernel/kernel.h"

/* A stack of matrices in memory. The batch dimensions of two stacks are matched from the last one on; dimensions of size 1 are
 * broadcast. */
typedef struct mp_stack {
    int n_batch;
    int64_t batch[MP_ARRAY_RANK], batch_stride[MP_ARRAY_RANK];
    int64_t rows, columns, row_stride, column_stride;
    mp_dtype dtype;
} mp_stack;

/* Returns operand k as a stack; a vector is a row if k is 0, else a column. `turn` (transA, transB) swaps the last two
 * dimensions. `turn_batch` (transBatchA, transBatchB) moves the first dimension after the batch dimensions. */
mp_stack mp_stack_of(const mp_array *a, int k, bool turn, bool turn_batch);
/* Returns the result y as a stack. If operand a is a vector, y has no dimension for rows; if b is a vector, none for columns.
 */
mp_stack mp_stack_result(const mp_array *y, const mp_stack *a, const mp_stack *b, bool vector_a, bool vector_b);
mp_stack mp_stack_transposed(mp_stack a);
bool mp_stack_is_single(const mp_stack *s); /* true if the stack consists of a single matrix */
/* Merges all batch dimensions into the rows, if the strides permit it; else returns false and changes nothing. */
bool mp_stack_fold(mp_stack *s);
/* Replaces the unused stride of a single row or column by the stride of a dense matrix, because libraries check this stride. */
void mp_stack_straighten(mp_stack *s);

/* The operands of MatMul, FusedMatMul or Gemm as stacks, already transposed. */
typedef struct mp_factors {
    mp_stack a, b, y;
    double alpha, beta; /* the scalars in the product y = alpha a b + beta c */
} mp_factors;
mp_factors mp_factors_read(const mp_operands *x);
/* The three stacks of a batched product c = a b. */
typedef struct mp_stacks {
    mp_stack a, b, c;
} mp_stacks;
/* mp_factors_forward returns the operands of Y = A B. mp_factors_gradient returns the operands of a gradient: dA = dY B^T
 * (factor 0) or dB = A^T dY (factor 1). Transpositions are strides. If B is a single matrix, the batch dimensions of A and Y
 * are merged into rows if the strides permit it. */
mp_stacks mp_factors_forward(const mp_factors *f);
mp_stacks mp_factors_gradient(const mp_factors *f, int factor);
/* Extends the result c to all batch dimensions of a and b. c becomes larger if it is the gradient of an operand that was
 * broadcast. In this case the function returns true, and c is the row-major array *terms, which the caller must sum to *to,
 * the original c. */
bool mp_stacks_spread(mp_stacks *p, mp_array *terms, mp_array *to);
/* Returns a stack as an array of n_batch + 2 dimensions; missing batch dimensions are added in front with size 1. */
mp_array mp_stack_array(const mp_stack *s, int n_batch);

/* True if c is a bias that libraries can add: one value per column, contiguous, and alpha and beta are 1. */
bool mp_factors_bias(const mp_array *c, const mp_factors *f);
