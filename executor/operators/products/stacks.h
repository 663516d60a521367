/* stacks.h - what a matrix product multiplies, in memory: stacks of matrices given by strides. The same for every backend. */
#pragma once

#include "executor/kernel/kernel.h"

/* A stack of matrices in memory. Batch dimensions of size 1 are broadcast; they are aligned at the end. */
typedef struct mp_stack {
    int n_batch;
    int64_t batch[MP_ARRAY_RANK], batch_stride[MP_ARRAY_RANK];
    int64_t rows, columns, row_stride, column_stride;
    mp_dtype dtype;
} mp_stack;

/* Operand k as a stack: vectors are a row on the left, a column on the right; transA and transB swap the last two dimensions,
 * transBatchA and transBatchB take the first one behind the batch. */
mp_stack mp_stack_of(const mp_array *a, int k, bool turn, bool turn_batch);
/* The result: as many batch dimensions as the larger operand, without the dimension that a vector lacks. */
mp_stack mp_stack_result(const mp_array *y, const mp_stack *a, const mp_stack *b, bool vector_a, bool vector_b);
mp_stack mp_stack_transposed(mp_stack a);
bool mp_stack_is_single(const mp_stack *s);
/* Batch dimensions as more rows, where they lie behind each other; false, and unchanged: they do not. */
bool mp_stack_fold(mp_stack *s);
/* A single row or column lies in memory like a matrix whose strides make sense. */
void mp_stack_straighten(mp_stack *s);

/* The operands of MatMul, FusedMatMul or Gemm, transpositions resolved. */
typedef struct mp_factors {
    mp_stack a, b, y;
    double alpha, beta; /* y = alpha a b + beta c */
} mp_factors;
mp_factors mp_factors_read(const mp_operands *x);
/* The three stacks of a batched product c = a b. */
typedef struct mp_stacks {
    mp_stack a, b, c;
} mp_stacks;
/* Y = A B, and the gradients dA = dY B^T (factor 0) and dB = A^T dY (factor 1): transpositions are strides, and batch
 * dimensions that the right factor lacks are more rows where they can be. */
mp_stacks mp_factors_forward(const mp_factors *f);
mp_stacks mp_factors_gradient(const mp_factors *f, int factor);
/* c becomes as large as a and b say. True: it was broadcast over batch dimensions, so that the terms, a plain array that c now
 * is, have to be summed to `to`, where c was. */
bool mp_stacks_spread(mp_stacks *p, mp_array *terms, mp_array *to);
/* A stack as an array of n_batch + 2 dimensions. */
mp_array mp_stack_array(const mp_stack *s, int n_batch);

/* Whether c is a bias as libraries add it: one value per column, unscaled. */
bool mp_factors_bias(const mp_array *c, const mp_factors *f);
