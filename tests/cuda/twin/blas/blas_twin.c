/* blas_twin.c - cublasLt on the host: the calls of blas_matmul.c, with their checks and their order of sums.
 *
 * It has three algorithms, which split the sums in one, two or four parts. Partial sums are rounded to float and added in the
 * workspace, so the algorithms differ in workspace and in the last bits. As in the library, sums are not split if a product
 * also computes the gradient of a bias. A call with arguments that the library refuses, or that make it slow (long rows that
 * do not begin at multiples of 16 bytes), fails. */
#include <stdlib.h>
#include <string.h>

#include "executor/cuda/device/device.h"
#include "executor/cuda/device/streams.h"
#include "executor/operators/aligned_rows.h"

enum { N_ALGORITHMS = 3, NUMBER = 66, ALIGNMENT = 16 };

typedef struct matrix {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t leading, step;
    int32_t count;
} matrix;

typedef struct operation {
    int32_t turns[2];
    uint32_t epilogue;
    void *bias;
} operation;

typedef struct preference {
    uint64_t workspace;
    uint32_t reductions;
} preference;

/* ---- the device ---- */

mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err)
{
    static char handle;
    static const mp_cuda_device device = {.name = "twin", .blas = (cublasLtHandle_t)&handle};
    (void)err;
    *out = &device;
    return MP_OK;
}

cudaStream_t mp_cuda_stream(void)
{
    return NULL;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(to, byte, bytes);
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaSuccess ? "no error" : "an error";
}

const char *cudnnGetErrorString(cudnnStatus_t code)
{
    return code == CUDNN_STATUS_SUCCESS ? "no error" : "an error";
}

/* ---- descriptors ---- */

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t leading)
{
    matrix *m = calloc(1, sizeof *m);
    if (!m) return CUBLAS_STATUS_ALLOC_FAILED;
    *m = (matrix){.type = type, .rows = rows, .columns = columns, .leading = leading, .count = 1};
    *out = (cublasLtMatrixLayout_t)(void *)m;
    return leading < (int64_t)rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free((void *)layout);
    return CUBLAS_STATUS_SUCCESS;
}

/* Copies an attribute of `size` bytes if it has the expected size. */
static cublasStatus_t put(void *to, size_t expected, const void *from, size_t size)
{
    if (size != expected) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t size)
{
    matrix *m = (void *)layout;
    if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return put(&m->count, sizeof m->count, value, size);
    if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return put(&m->step, sizeof m->step, value, size);
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType scale)
{
    operation *o = calloc(1, sizeof *o);
    (void)compute, (void)scale;
    if (!o) return CUBLAS_STATUS_ALLOC_FAILED;
    o->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *out = (cublasLtMatmulDesc_t)(void *)o;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t of)
{
    free((void *)of);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t name, const void *value,
                                              size_t size)
{
    operation *o = (void *)of;
    if (name == CUBLASLT_MATMUL_DESC_TRANSA) return put(&o->turns[0], sizeof o->turns[0], value, size);
    if (name == CUBLASLT_MATMUL_DESC_TRANSB) return put(&o->turns[1], sizeof o->turns[1], value, size);
    if (name == CUBLASLT_MATMUL_DESC_EPILOGUE) return put(&o->epilogue, sizeof o->epilogue, value, size);
    if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return put(&o->bias, sizeof o->bias, value, size);
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    preference *p = calloc(1, sizeof *p);
    *out = (cublasLtMatmulPreference_t)(void *)p;
    return p ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t of)
{
    free((void *)of);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of, cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t size)
{
    preference *p = (void *)of;
    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return put(&p->workspace, sizeof p->workspace, value, size);
    if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return put(&p->reductions, sizeof p->reductions, value, size);
    return size == sizeof(uint32_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; /* alignments */
}

/* ---- algorithms ---- */

static int n_parts(const cublasLtMatmulAlgo_t *algorithm)
{
    return 1 << algorithm->data[0];
}

static size_t workspace_of(const cublasLtMatmulAlgo_t *algorithm, const matrix *d)
{
    return n_parts(algorithm) > 1 ? (size_t)n_parts(algorithm) * d->rows * d->columns * sizeof(float) : 0;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wishes, int most,
                                              cublasLtMatmulHeuristicResult_t *found, int *n)
{
    const operation *o = (const void *)of;
    const preference *p = (const void *)wishes;
    const bool gradient = o->epilogue == CUBLASLT_EPILOGUE_BGRADA || o->epilogue == CUBLASLT_EPILOGUE_BGRADB;
    (void)handle, (void)a, (void)b, (void)c;
    *n = 0;
    for (uint64_t k = 0; k < N_ALGORITHMS && *n < most; k++) {
        cublasLtMatmulHeuristicResult_t result = {.algo.data[0] = k, .state = CUBLAS_STATUS_SUCCESS};
        result.workspaceSize = workspace_of(&result.algo, (const void *)d);
        if (result.workspaceSize > p->workspace) continue;
        if (k && (gradient || !(p->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))) continue;
        found[(*n)++] = result;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, void *value, size_t size,
                                                    size_t *written)
{
    const bool is_short = name == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || name == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
    uint32_t is = 0;
    if (name == CUBLASLT_ALGO_CONFIG_ID) is = NUMBER;
    if (name == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) is = (uint32_t)n_parts(algorithm);
    if (name == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && n_parts(algorithm) > 1) is = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (size != (is_short ? sizeof(uint16_t) : sizeof is)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &is, size); /* little-endian */
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

static float load(const matrix *m, const void *data, int64_t at)
{
    if (m->type == CUDA_R_32F) return ((const float *)data)[at];
    uint32_t word = (uint32_t)((const uint16_t *)data)[at] << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void store(const matrix *m, void *data, int64_t at, float value)
{
    uint32_t word;
    if (m->type == CUDA_R_32F) {
        ((float *)data)[at] = value;
        return;
    }
    memcpy(&word, &value, sizeof word);
    if (value == value) word += 0x7fff + (word >> 16 & 1);
    ((uint16_t *)data)[at] = (uint16_t)(word >> 16 | (value == value ? 0 : 0x40));
}

static size_t element_of(const matrix *m)
{
    return m->type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

/* Copies matrix k of an operand to floats: `outer` lines of n terms. `turned`: the terms are contiguous. */
static void gather(const matrix *m, const void *data, int64_t k, bool turned, int64_t outer, int64_t n, float *to)
{
    const void *from = (const char *)data + (size_t)(k * m->step) * element_of(m);
    for (int64_t i = 0; i < outer; i++)
        for (int64_t e = 0; e < n; e++) to[i * n + e] = load(m, from, turned ? e + i * m->leading : i + e * m->leading);
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum[4] = {0};
    int64_t k = 0;
    for (; k + 4 <= n; k += 4)
        for (int e = 0; e < 4; e++) sum[e] += (double)a[k + e] * b[k + e];
    for (; k < n; k++) sum[0] += (double)a[k] * b[k];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* Sums the terms of each line of an operand: the gradient of a bias. */
static void sum_lines(const matrix *d, const float *lines, int64_t n_lines, int64_t n, void *bias)
{
    for (int64_t i = 0; i < n_lines; i++) {
        double sum = 0;
        for (int64_t e = 0; e < n; e++) sum += lines[i * n + e];
        store(d, bias, i, (float)sum);
    }
}

static bool is_valid(const matrix *m, const void *data)
{
    const size_t row = (size_t)m->leading * element_of(m);
    return data && (uintptr_t)data % element_of(m) == 0 &&
           (m->rows < MP_ALIGNED_ROWS_MIN || m->columns < 2 || row % ALIGNMENT == 0);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, const void *alpha, const void *a_data,
                              cublasLtMatrixLayout_t a_layout, const void *b_data, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c_data, cublasLtMatrixLayout_t c_layout, void *d_data,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t bytes, cudaStream_t stream)
{
    const operation *o = (const void *)of;
    const matrix *a = (const void *)a_layout, *b = (const void *)b_layout, *d = (const void *)d_layout;
    const float scale = *(const float *)alpha, keep = *(const float *)beta;
    const int64_t rows = (int64_t)d->rows, columns = (int64_t)d->columns, all = rows * columns;
    const bool a_turned = o->turns[0] == CUBLAS_OP_T, b_turned = o->turns[1] == CUBLAS_OP_T;
    const int64_t n = (int64_t)(a_turned ? a->rows : a->columns);
    const int parts = n_parts(algorithm);
    float *left = malloc((size_t)(rows * n + 1) * sizeof *left), *right = malloc((size_t)(columns * n + 1) * sizeof *right);
    cublasStatus_t code = CUBLAS_STATUS_INVALID_VALUE;
    (void)handle, (void)stream;
    bool valid = left && right && c_data == d_data && c_layout == d_layout && is_valid(a, a_data) && is_valid(b, b_data);
    valid = valid && is_valid(d, d_data) && n == (int64_t)(b_turned ? b->columns : b->rows);
    valid = valid && (o->epilogue == CUBLASLT_EPILOGUE_DEFAULT || o->bias) && bytes >= workspace_of(algorithm, d);
    valid = valid && (parts == 1 || (workspace && (uintptr_t)workspace % ALIGNMENT == 0));
    for (int64_t k = 0; valid && k < d->count; k++) {
        void *to = (char *)d_data + (size_t)(k * d->step) * element_of(d);
        gather(a, a_data, k, a_turned, rows, n, left);
        gather(b, b_data, k, !b_turned, columns, n, right);
        for (int64_t at = 0; at < all; at++) {
            const int64_t i = at % rows, j = at / rows, place = i + j * d->leading;
            float sum = 0;
            for (int part = 0; part < parts; part++) {
                const int64_t from = n * part / parts, end = n * (part + 1) / parts;
                float one = (float)dot(left + i * n + from, right + j * n + from, end - from);
                if (parts > 1) ((float *)workspace)[part * all + at] = one;
                sum += one;
            }
            sum *= scale;
            if (keep != 0) sum += keep * load(d, to, place);
            if (o->epilogue == CUBLASLT_EPILOGUE_BIAS) sum += load(d, o->bias, i);
            store(d, to, place, sum);
        }
        if (o->epilogue == CUBLASLT_EPILOGUE_BGRADA) sum_lines(d, left, rows, n, o->bias);
        if (o->epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_lines(d, right, columns, n, o->bias);
    }
    if (valid) code = CUBLAS_STATUS_SUCCESS;
    free(left);
    free(right);
    return code;
}
