/* blas_matmul.c - describes a matrix product for cublasLt, and selects an algorithm among those of its heuristics. */
#include "executor/cuda/vendor/blas_matmul.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "memplan/memory.h"

MP_HANDLE_OWNER(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t)

enum { STORAGE_ALIGNMENT = 64 };

/* A batch dimension of a product: its size, and its strides in a, b and c in elements. */
typedef struct batch {
    int64_t size, stride[3];
} batch;

static int64_t batch_stride(const mp_stack *s, int n_batch, int d)
{
    int own = d - (n_batch - s->n_batch);
    return own < 0 || s->batch[own] == 1 ? 0 : s->batch_stride[own];
}

/* Lists the batch dimensions of a product and returns their number. Dimensions that are contiguous in all operands are
 * merged. */
static int read_batches(const mp_stack *const *s, batch *all)
{
    int n = 0;
    for (int d = 0; d < s[2]->n_batch; d++) {
        batch b = {.size = s[2]->batch[d]};
        bool merges = n > 0;
        if (b.size == 1) continue;
        for (int i = 0; i < 3; i++) {
            b.stride[i] = batch_stride(s[i], s[2]->n_batch, d);
            merges = merges && all[n - 1].stride[i] == b.stride[i] * b.size;
        }
        if (merges) b.size *= all[--n].size;
        all[n++] = b;
    }
    return n;
}

/* Returns the largest power of 2, in bytes, that divides the addresses of all matrices of an operand. Storages are aligned to
 * STORAGE_ALIGNMENT, but strides between matrices may have a smaller alignment. */
static uint32_t alignment_of(const mp_blas_matmul *m, int operand, int64_t step_bytes)
{
    uint64_t all = STORAGE_ALIGNMENT | (uint64_t)step_bytes;
    for (int d = 0; d < m->n_loops; d++) all |= (uint64_t)m->strides[operand][d];
    return (uint32_t)(all & (0 - all));
}

static cudaDataType_t type_of(mp_dtype dtype)
{
    return dtype == MP_DTYPE_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Describes a matrix for cublasLt, with contiguous columns and a leading dimension. *turned: the described matrix is the
 * transpose of the product's operand. */
static mp_status describe(const mp_stack *s, const batch *b, int operand, cublasLtMatrixLayout_t *out, bool *turned,
                          mp_error *err)
{
    mp_stack m = *s;
    mp_stack_straighten(&m);
    MP_ENSURE(m.column_stride == 1 || m.row_stride == 1, err, MP_UNSUPPORTED,
              "cublasLt needs contiguous rows or columns, but a matrix has neither");
    *turned = m.column_stride != 1;
    int64_t inner = *turned ? m.rows : m.columns, outer = *turned ? m.columns : m.rows;
    int64_t leading = *turned ? m.column_stride : m.row_stride;
    if (leading < inner) leading = inner;
    MP_CUBLAS(cublasLtMatrixLayoutCreate(out, type_of(s->dtype), (uint64_t)inner, (uint64_t)outer, leading), err);
    if (b->size > 1) {
        int32_t count = (int32_t)b->size;
        MP_ENSURE(b->size <= INT32_MAX, err, MP_UNSUPPORTED, "cublasLt does not support batches of so many matrices");
        MP_CUBLAS(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), err);
        MP_CUBLAS(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &b->stride[operand],
                                                   sizeof b->stride[operand]),
                  err);
    }
    return MP_OK;
}

/* Returns the limit in bytes for the workspace of a product. */
static uint64_t workspace_limit(void)
{
    const int64_t limit = mp_cuda_settings_get()->workspace_limit;
    return (uint64_t)(limit < MP_BLAS_WORKSPACE ? limit : MP_BLAS_WORKSPACE);
}

/* Queries cublasLt's heuristics for the algorithms of a product, the fastest by their estimate first. *n = 0: there are none.
 */
static mp_status propose(const mp_blas_matmul *m, const mp_cuda_device *device,
                         cublasLtMatmulHeuristicResult_t found[MP_BLAS_CANDIDATES], int *n, mp_error *err)
{
    MP_OWNED_BY(cublasLtMatmulPreferenceDestroy) cublasLtMatmulPreference_t preference = NULL;
    const uint32_t *alignment = m->alignment;
    uint64_t limit = workspace_limit();
    uint32_t reductions =
        mp_cuda_settings_get()->fast ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    *n = 0;
    MP_CUBLAS(cublasLtMatmulPreferenceCreate(&preference), err);
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t size;
    } wishes[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit},
                  {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment[0], sizeof alignment[0]},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment[1], sizeof alignment[1]},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment[2], sizeof alignment[2]},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment[2], sizeof alignment[2]}};
    for (size_t k = 0; k < sizeof wishes / sizeof *wishes; k++)
        MP_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, wishes[k].name, wishes[k].value, wishes[k].size), err);
    cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(device->blas, m->operation, m->left, m->right, m->result, m->result,
                                                         preference, MP_BLAS_CANDIDATES, found, n);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED)
        *n = 0; /* with this status, cublasLt reports that it has found no algorithm */
    else
        MP_CHECK(mp_cublas_error(code, "cublasLtMatmulAlgoGetHeuristic", err));
    int usable = 0;
    for (int k = 0; k < *n; k++)
        if (found[k].state == CUBLAS_STATUS_SUCCESS) found[usable++] = found[k];
    *n = usable;
    return MP_OK;
}

static void use_algorithm(mp_blas_matmul *m, const cublasLtMatmulHeuristicResult_t *found)
{
    m->algorithm = found->algo;
    m->workspace_bytes = (int64_t)found->workspaceSize;
}

/* Selects the first algorithm that the heuristics return. Without a GPU, assumes an algorithm with the largest workspace. */
static mp_status choose(mp_blas_matmul *m, mp_error *err)
{
    const mp_cuda_device *device = NULL;
    cublasLtMatmulHeuristicResult_t found[MP_BLAS_CANDIDATES];
    int n;
    if (mp_cuda_open(&device, NULL) != MP_OK) {
        m->workspace_bytes = (int64_t)workspace_limit();
        return MP_OK;
    }
    MP_CHECK(propose(m, device, found, &n, err));
    MP_ENSURE(n > 0, err, MP_UNSUPPORTED, "cublasLt has no algorithm for this product");
    use_algorithm(m, &found[0]);
    return MP_OK;
}

/* Writes the name of an algorithm: its number and the values of its configuration that are not 0, "algorithm 66, 1=20 6=12".
 * These numbers are the same in every process with the same version of cublasLt. *scheme: how split sums are added. */
static mp_status name_algorithm(const cublasLtMatmulAlgo_t *algorithm, char name[MP_ALGORITHM_NAME], uint32_t *scheme,
                                mp_error *err)
{
    /* the number, then tile, split sums, their reduction, swizzle, option, stages, inner shape, cluster */
    uint32_t value[CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID + 1];
    int length = 0;
    for (int k = 0; k <= CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID; k++) {
        const bool is_short = k == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || k == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
        uint16_t half = 0; /* the last two values have 16 bits */
        size_t written;
        value[k] = 0;
        MP_CUBLAS(cublasLtMatmulAlgoConfigGetAttribute(algorithm, (cublasLtMatmulAlgoConfigAttributes_t)k,
                                                       is_short ? (void *)&half : &value[k],
                                                       is_short ? sizeof half : sizeof value[k], &written),
                  err);
        if (is_short) value[k] = half;
        if (k && !value[k]) continue;
        const int room = length < MP_ALGORITHM_NAME ? MP_ALGORITHM_NAME - length : 0;
        length +=
            k ? snprintf(name + length, (size_t)room, "%s%d=%" PRIu32, length && strchr(name, ',') ? " " : ", ", k, value[k])
              : snprintf(name, (size_t)room, "algorithm %" PRIu32, value[k]);
    }
    *scheme = value[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME];
    return MP_OK;
}

static bool is_listed(const mp_algorithms *list, const char *name)
{
    for (int k = 0; k < list->n; k++)
        if (!strcmp(list->list[k].name, name)) return true;
    return false;
}

mp_status mp_blas_matmul_list(const mp_blas_matmul *m, const char *ending, int most, mp_algorithms *out, mp_error *err)
{
    const mp_cuda_device *device = NULL;
    cublasLtMatmulHeuristicResult_t found[MP_BLAS_CANDIDATES];
    int n, end = out->n + most < MP_ALGORITHMS ? out->n + most : MP_ALGORITHMS;
    if (mp_cuda_open(&device, NULL) != MP_OK) return MP_OK;
    MP_CHECK(propose(m, device, found, &n, err));
    for (int k = 0; k < n && out->n < end; k++) {
        char name[MP_ALGORITHM_NAME], whole[MP_ALGORITHM_NAME];
        uint32_t scheme;
        MP_CHECK(name_algorithm(&found[k].algo, name, &scheme, err));
        if (snprintf(whole, sizeof whole, "%s%s", name, ending) >= (int)sizeof whole || is_listed(out, whole)) continue;
        memcpy(out->list[out->n].name, whole, sizeof whole);
        out->list[out->n++].is_deterministic = scheme != CUBLASLT_REDUCTION_SCHEME_INPLACE;
    }
    return MP_OK;
}

mp_status mp_blas_matmul_take(mp_blas_matmul *m, const char *name, size_t length, mp_error *err)
{
    const mp_cuda_device *device;
    cublasLtMatmulHeuristicResult_t found[MP_BLAS_CANDIDATES];
    int n;
    if (mp_cuda_open(&device, NULL) != MP_OK) return MP_OK; /* the assumed workspace is the largest of all algorithms */
    MP_CHECK(propose(m, device, found, &n, err));
    for (int k = 0; k < n; k++) {
        char own[MP_ALGORITHM_NAME];
        uint32_t scheme;
        MP_CHECK(name_algorithm(&found[k].algo, own, &scheme, err));
        if (strlen(own) != length || strncmp(own, name, length) != 0) continue;
        use_algorithm(m, &found[k]);
        return MP_OK;
    }
    return MP_FAIL(err, MP_UNSUPPORTED, "cublasLt has no algorithm '%.*s' for this product", (int)length, name);
}

static mp_status describe_operation(mp_blas_matmul *m, mp_dtype dtype, bool left_turned, bool right_turned, mp_error *err)
{
    bool tf32 = dtype == MP_DTYPE_FLOAT && mp_cuda_settings_get()->tf32;
    int32_t turns[2] = {left_turned ? CUBLAS_OP_T : CUBLAS_OP_N, right_turned ? CUBLAS_OP_T : CUBLAS_OP_N};
    /* the bias gradient sums over the rows of b, which is operand A or B of cublasLt */
    uint32_t gradient = m->is_turned ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    uint32_t epilogue = m->bias == MP_BLAS_BIAS ? CUBLASLT_EPILOGUE_BIAS : gradient;
    const void *somewhere = m; /* an arbitrary address: the heuristics only test that the bias pointer is not NULL */
    MP_CUBLAS(cublasLtMatmulDescCreate(&m->operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
              err);
    MP_CUBLAS(cublasLtMatmulDescSetAttribute(m->operation, CUBLASLT_MATMUL_DESC_TRANSA, &turns[0], sizeof turns[0]), err);
    MP_CUBLAS(cublasLtMatmulDescSetAttribute(m->operation, CUBLASLT_MATMUL_DESC_TRANSB, &turns[1], sizeof turns[1]), err);
    if (m->bias == MP_BLAS_NO_BIAS) return MP_OK;
    MP_CUBLAS(cublasLtMatmulDescSetAttribute(m->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), err);
    MP_CUBLAS(cublasLtMatmulDescSetAttribute(m->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &somewhere, sizeof somewhere),
              err);
    return MP_OK;
}

mp_status mp_blas_matmul_prepare(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, double beta,
                                 mp_blas_bias bias, mp_blas_matmul *out, mp_error *err)
{
    mp_stack s[3] = {*a, *b, *c};
    batch all[MP_ARRAY_RANK], strided = {.size = 1};
    bool a_turned, b_turned, c_turned;
    int64_t element = mp_dtype_bits(c->dtype) / 8;
    mp_blas_matmul *m = out;
    *m = (mp_blas_matmul){.alpha = (float)alpha, .beta = (float)beta, .bias = bias};
    mp_stack_straighten(&s[2]);
    m->is_turned = s[2].column_stride != 1;
    if (m->is_turned) { /* c is column-major, so its transpose is row-major: the product is described as c^T = b^T a^T */
        s[0] = mp_stack_transposed(*b);
        s[1] = mp_stack_transposed(*a);
        s[2] = mp_stack_transposed(s[2]);
    }
    MP_ENSURE(bias != MP_BLAS_BIAS || !m->is_turned, err, MP_UNSUPPORTED,
              "cublasLt does not add a bias along the rows of its result");
    int n = read_batches((const mp_stack *[]){&s[0], &s[1], &s[2]}, all), largest = 0;
    MP_ENSURE(bias != MP_BLAS_BIAS_GRADIENT || n == 0, err, MP_UNSUPPORTED,
              "cublasLt does not sum the gradient of a bias over several products");
    for (int d = 1; d < n; d++)
        if (all[d].size > all[largest].size) largest = d;
    for (int d = 0; d < n; d++) {
        if (d == largest) {
            strided = all[d];
            continue;
        }
        MP_ENSURE(m->n_loops < MP_BLAS_LOOPS, err, MP_UNSUPPORTED, "the product has too many batch dimensions");
        m->loops[m->n_loops] = all[d].size;
        for (int i = 0; i < 3; i++) m->strides[i][m->n_loops] = all[d].stride[i] * element;
        m->n_loops++;
    }
    /* the left operand of cublasLt is b, because the product is transposed */
    MP_CHECK(describe(&s[1], &strided, 1, &m->left, &b_turned, err));
    MP_CHECK(describe(&s[0], &strided, 0, &m->right, &a_turned, err));
    MP_CHECK(describe(&s[2], &strided, 2, &m->result, &c_turned, err));
    MP_CHECK(describe_operation(m, c->dtype, b_turned, a_turned, err));
    for (int i = 0; i < 3; i++) m->alignment[i == 0 ? 1 : i == 1 ? 0 : 2] = alignment_of(m, i, strided.stride[i] * element);
    return choose(m, err);
}

mp_status mp_blas_matmul_run(const mp_blas_matmul *m, const void *a, const void *b, void *c, void *bias, void *workspace,
                             mp_error *err)
{
    const mp_cuda_device *device;
    const char *left = m->is_turned ? a : b, *right = m->is_turned ? b : a;
    int64_t n = 1;
    MP_CHECK(mp_cuda_open(&device, err));
    if (m->bias != MP_BLAS_NO_BIAS)
        MP_CUBLAS(cublasLtMatmulDescSetAttribute(m->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), err);
    for (int d = 0; d < m->n_loops; d++) n *= m->loops[d];
    for (int64_t k = 0; k < n; k++) {
        int64_t at[3] = {0}, rest = k;
        for (int d = m->n_loops - 1; d >= 0; d--) {
            for (int i = 0; i < 3; i++) at[i] += rest % m->loops[d] * m->strides[i][d];
            rest /= m->loops[d];
        }
        void *to = (char *)c + at[2];
        MP_CUBLAS(cublasLtMatmul(device->blas, m->operation, &m->alpha, left + at[1], m->left, right + at[0], m->right,
                                 &m->beta, to, m->result, to, m->result, &m->algorithm, m->workspace_bytes ? workspace : NULL,
                                 (size_t)m->workspace_bytes, device->stream),
                  err);
    }
    return MP_OK;
}

void mp_blas_matmul_release(mp_blas_matmul *m)
{
    if (m->result) cublasLtMatrixLayoutDestroy(m->result);
    if (m->right) cublasLtMatrixLayoutDestroy(m->right);
    if (m->left) cublasLtMatrixLayoutDestroy(m->left);
    if (m->operation) cublasLtMatmulDescDestroy(m->operation);
    *m = (mp_blas_matmul){0};
}
