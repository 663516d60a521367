/* blas_matmul.h - one matrix product on cublasLt: described, its algorithm pinned, enqueued. Private to executor/cuda/.
 *
 * cublasLt's matrices are column-major, so c = a b is handed over as c^T = b^T a^T: what lies row-major is what it calls its
 * transpose, and nothing is copied. Batch dimensions that lie evenly become one strided batch, the others a loop.
 *
 * Algorithms are the first that the heuristics name, without reductions in place. Split sums go through the workspace in a
 * fixed order, so results are the same from run to run.
 *
 * cublasLt answers only where there is a GPU. Without one, nothing is known of an algorithm but the most that it may take:
 * that is then the workspace (MP_BLAS_WORKSPACE, or the limit of mp_cuda_settings if that is less).
 */
#pragma once

#include <cublasLt.h>

#include "executor/operators/products/stacks.h"

enum { MP_BLAS_WORKSPACE = 32 << 20, MP_BLAS_LOOPS = 8 };

/* What a product does with a vector besides: one value per column of c. */
typedef enum mp_blas_bias {
    MP_BLAS_NO_BIAS,
    MP_BLAS_BIAS,         /* adds it to every row of c */
    MP_BLAS_BIAS_GRADIENT /* writes the sums over the rows of b there: c = a^T dy is a weight's gradient, and dy is b */
} mp_blas_bias;

typedef struct mp_blas_matmul {
    cublasLtMatmulDesc_t operation; /* NULL: empty */
    cublasLtMatrixLayout_t left, right, result;
    cublasLtMatmulAlgo_t algorithm;
    bool is_turned; /* c lies column-major: computed as it is written, not transposed */
    mp_blas_bias bias;
    float alpha, beta;
    int64_t workspace_bytes;
    /* what the strided batch leaves over, outermost first; strides in bytes of a, b, c */
    int n_loops;
    int64_t loops[MP_BLAS_LOOPS], strides[3][MP_BLAS_LOOPS];
} mp_blas_matmul;

/* Prepares c = alpha a b + beta c. c has all batch dimensions. MP_UNSUPPORTED: a matrix with neither rows nor columns side by
 * side, or no algorithm. Release it even after a failure. */
mp_status mp_blas_matmul_prepare(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, double beta,
                                 mp_blas_bias bias, mp_blas_matmul *out, mp_error *err);
/* `bias` is written where it is a gradient. */
mp_status mp_blas_matmul_run(const mp_blas_matmul *m, const void *a, const void *b, void *c, void *bias, void *workspace,
                             mp_error *err);
void mp_blas_matmul_release(mp_blas_matmul *m); /* an empty one is fine */
