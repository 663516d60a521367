/* blas_matmul.h - one matrix product with cublasLt: describes it, fixes its algorithm, enqueues it. Private to executor/cuda/.
 *
 * The matrices of cublasLt are column-major, so c = a b is passed as c^T = b^T a^T. A row-major matrix is then the transpose
 * that cublasLt expects, and nothing is copied. Batch dimensions with one common stride become one strided batch; the others
 * become a loop.
 *
 * The default algorithm is the first one from the heuristics, without in-place reductions. Sums that are split over blocks are
 * added through the workspace in a fixed order, so results are bit-identical from run to run. Other algorithms have names, and
 * a product can take one of them by its name.
 *
 * The heuristics of cublasLt need a GPU. Without one, the algorithm is unknown, and the workspace is set to its limit:
 * MP_BLAS_WORKSPACE, or the limit of mp_cuda_settings if that is smaller. */
#pragma once

#include <cublasLt.h>

#include "executor/operators/products/stacks.h"

enum { MP_BLAS_WORKSPACE = 32 << 20, MP_BLAS_LOOPS = 8, MP_BLAS_CANDIDATES = 16 };

/* How a product uses the bias vector, which has one value per column of c. */
typedef enum mp_blas_bias {
    MP_BLAS_NO_BIAS,
    MP_BLAS_BIAS, /* the product adds the bias vector to every row of c */
    /* the product writes the sums over the rows of b to the bias vector: if c = a^T dy is a weight's gradient, b is dy */
    MP_BLAS_BIAS_GRADIENT
} mp_blas_bias;

typedef struct mp_blas_matmul {
    cublasLtMatmulDesc_t operation; /* NULL: the product is not prepared */
    cublasLtMatrixLayout_t left, right, result;
    uint32_t alignment[3]; /* of all matrices of cublasLt's operands A, B and C, in bytes */
    cublasLtMatmulAlgo_t algorithm;
    bool is_turned; /* true: c is column-major, so the product is described as c^T = b^T a^T */
    mp_blas_bias bias;
    float alpha, beta;
    int64_t workspace_bytes;
    /* Batch dimensions over which the host loops, outermost first; strides in bytes for a, b and c. */
    int n_loops;
    int64_t loops[MP_BLAS_LOOPS], strides[3][MP_BLAS_LOOPS];
} mp_blas_matmul;

/* Prepares c = alpha a b + beta c. c has all batch dimensions of a and b. MP_UNSUPPORTED: neither rows nor columns of a matrix
 * are contiguous, or cublasLt has no algorithm. The caller releases *out, even after a failure. */
mp_status mp_blas_matmul_prepare(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, double beta,
                                 mp_blas_bias bias, mp_blas_matmul *out, mp_error *err);
/* Lists at most `most` algorithms of a prepared product, the default first, behind those that are in *out. `ending` is appended
 * to each name. Lists nothing without a GPU. */
mp_status mp_blas_matmul_list(const mp_blas_matmul *m, const char *ending, int most, mp_algorithms *out, mp_error *err);
/* Replaces the algorithm of a prepared product. The name has `length` characters. MP_UNSUPPORTED: this GPU has no algorithm of
 * that name. Without a GPU, accepts every name. */
mp_status mp_blas_matmul_take(mp_blas_matmul *m, const char *name, size_t length, mp_error *err);
/* Enqueues the product. `bias` is the address of the bias vector, which MP_BLAS_BIAS_GRADIENT writes and MP_BLAS_BIAS reads. */
mp_status mp_blas_matmul_run(const mp_blas_matmul *m, const void *a, const void *b, void *c, void *bias, void *workspace,
                             mp_error *err);
void mp_blas_matmul_release(mp_blas_matmul *m); /* Releases the product; does nothing if *m is zeroed. */
