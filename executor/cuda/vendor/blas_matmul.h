/* blas_matmul.h - one matrix product on cublasLt: describes it, fixes its algorithm, enqueues it. Private to executor/cuda/.
 *
 * cublasLt's matrices are column-major, so c = a b is passed as c^T = b^T a^T: a row-major matrix is the transpose that
 * cublasLt wants, and nothing is copied. Batch dimensions with one common stride become one strided batch, the others a loop.
 *
 * Algorithms are the first that the heuristics name, without in-place reductions. Split sums go through the workspace in a
 * fixed order, so results are the same from run to run.
 *
 * cublasLt answers only where there is a GPU. Without one the algorithm is unknown, and the workspace is the most that it
 * may take (MP_BLAS_WORKSPACE, or the limit of mp_cuda_settings if that is less). */
#pragma once

#include <cublasLt.h>

#include "executor/operators/products/stacks.h"

enum { MP_BLAS_WORKSPACE = 32 << 20, MP_BLAS_LOOPS = 8 };

/* The epilogue of a product: a vector with one value per column of c. */
typedef enum mp_blas_bias {
    MP_BLAS_NO_BIAS,
    MP_BLAS_BIAS,         /* adds the vector to every row of c */
    MP_BLAS_BIAS_GRADIENT /* writes the sums over the rows of b to the vector: where c = a^T dy is a weight's gradient, b is dy
                           */
} mp_blas_bias;

typedef struct mp_blas_matmul {
    cublasLtMatmulDesc_t operation; /* NULL: not prepared */
    cublasLtMatrixLayout_t left, right, result;
    cublasLtMatmulAlgo_t algorithm;
    bool is_turned; /* c is column-major and computed as it is, not as its transpose */
    mp_blas_bias bias;
    float alpha, beta;
    int64_t workspace_bytes;
    /* The batch dimensions left to loops, outermost first; strides in bytes of a, b, c. */
    int n_loops;
    int64_t loops[MP_BLAS_LOOPS], strides[3][MP_BLAS_LOOPS];
} mp_blas_matmul;

/* Prepares c = alpha a b + beta c. c has all batch dimensions. MP_UNSUPPORTED: a matrix has neither rows nor columns that
 * are contiguous, or there is no algorithm. Release it even after a failure. */
mp_status mp_blas_matmul_prepare(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, double beta,
                                 mp_blas_bias bias, mp_blas_matmul *out, mp_error *err);
/* Enqueues the product. `bias` is written if it is a gradient, else read. */
mp_status mp_blas_matmul_run(const mp_blas_matmul *m, const void *a, const void *b, void *c, void *bias, void *workspace,
                             mp_error *err);
void mp_blas_matmul_release(mp_blas_matmul *m); /* does nothing for a zeroed one */
