/* launches_backend.c - the module: the GPU's calls, with replacements for the device and its kernels.
 *
 * Counting restarts at the first pass of a step. The environment selects the file for the list (MEMPLAN_LAUNCHES).
 * MEMPLAN_LAUNCHES_ONLY skips own kernels' bodies and counts only launches. */
#include <stdlib.h>

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/layouts.h"
#include "executor/operators/aligned_rows.h"
#include "executor/operators/updates/updates_cuda.h"
#include "tests/launches/launches.h"

static mp_cuda_context context;
static bool is_running; /* during a call, a device is reported */
static mp_cuda_pass *pass;
static mp_update_factors *step_factors;

/* ---- the device ---- */

mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err)
{
    *out = &context.device;
    return is_running ? MP_OK : MP_FAIL(err, MP_UNSUPPORTED, "there is no GPU here");
}

const mp_cuda_settings *mp_cuda_settings_get(void)
{
    return &context.settings;
}

cudaStream_t mp_cuda_stream(void)
{
    return NULL;
}

void mp_cuda_begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    mp_cuda_use(self);
    launches_reset(!getenv("MEMPLAN_LAUNCHES_ONLY"));
    if (!pass) pass = launches_allocate(sizeof *pass);
    *pass = (mp_cuda_pass){seed, step};
    if (!step_factors) step_factors = launches_allocate(sizeof *step_factors);
    if (factors) *step_factors = *factors;
}

const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run)
{
    (void)run; /* the pass of the last `begin` */
    return pass;
}

const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors)
{
    *step_factors = *factors;
    return step_factors;
}

/* ---- functions on the device ---- */

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    (void)to, (void)byte, (void)bytes, (void)stream;
    launches_library("cudaMemsetAsync");
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal)
{
    (void)ordinal;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaSuccess ? "no error" : "an error";
}

/* True if every row of a matrix of cublasLt begins at a multiple of 16 bytes, or rows are too short to be aligned. */
static bool is_aligned(cublasLtMatrixLayout_t matrix)
{
    uint64_t row = 0;
    int64_t leading = 0;
    cudaDataType_t type = CUDA_R_32F;
    cublasLtMatrixLayoutGetAttribute(matrix, CUBLASLT_MATRIX_LAYOUT_ROWS, &row, sizeof row, NULL);
    cublasLtMatrixLayoutGetAttribute(matrix, CUBLASLT_MATRIX_LAYOUT_LD, &leading, sizeof leading, NULL);
    cublasLtMatrixLayoutGetAttribute(matrix, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type, NULL);
    return row < MP_ALIGNED_ROWS_MIN || leading * (type == CUDA_R_16BF ? 2 : 4) % 16 == 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes, cudaStream_t stream)
{
    (void)handle, (void)operation, (void)alpha, (void)a, (void)b, (void)beta, (void)c;
    (void)c_layout, (void)d, (void)algorithm, (void)workspace, (void)bytes, (void)stream;
    const bool aligned = is_aligned(a_layout) && is_aligned(b_layout) && is_aligned(d_layout);
    launches_library(aligned ? "cublasLtMatmul" : "cublasLtMatmul, unaligned rows");
    return CUBLAS_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    (void)handle, (void)plan, (void)pack;
    launches_library("cudnnBackendExecute");
    return CUDNN_STATUS_SUCCESS;
}

/* ---- calls, each recorded when it runs ---- */

static mp_status run_call(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_call *kept = call->state;
    launches_call(x->workspace, call->workspace_bytes);
    is_running = true;
    mp_status st = kept->run(kept, x, err);
    is_running = false;
    return st;
}

static void release_call(mp_call *call)
{
    mp_call_release(call->state);
}

static const mp_kernel *inner_kernel(const mp_operator *op)
{
#define TABLE(name) mp_cuda_##name,
    static const mp_kernel *const libraries[] = {MP_CUDA_LIBRARY_FAMILIES(TABLE)};
#undef TABLE
    const mp_kernel *found = mp_kernel_find(libraries, sizeof libraries / sizeof *libraries, op);
    return found ? found : mp_cuda_own_kernel(op);
}

static void give_up(mp_call *kept)
{
    if (kept) mp_call_release(kept);
    mp_free(kept);
}
MP_OWNER(give_up, mp_call)

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_kernel *kernel = inner_kernel(x->op);
    mp_prepare with = x->is_backward ? kernel->backward : kernel->forward;
    MP_OWNED_BY(give_up) mp_call *kept = NULL;
    if (!with) return MP_NO_KERNEL(x, err, "its gradient");
    MP_ENSURE(kept = mp_alloc(1, sizeof *kept), err, MP_NOMEM, "out of memory");
    MP_CHECK(with(x, kept, err));
    *call = *kept;
    call->run = run_call;
    call->release = release_call;
    call->state = kept;
    kept = NULL;
    return MP_OK;
}

static const mp_kernel *kernel(const mp_backend *self, const mp_operator *op)
{
    static const mp_kernel row = {"any", "", prepare, prepare};
    mp_cuda_use(self);
    return inner_kernel(op) ? &row : NULL;
}

/* Returns the chain with the calls of the kernels in place of those that are recorded. */
static mp_call_chain inner_chain(const mp_call_chain *chain)
{
    mp_call_chain inner = *chain;
    for (size_t k = 0; k < chain->n; k++) inner.links[k].call = chain->links[k].call->state;
    return inner;
}

static mp_status run_chain(const mp_call_chain *chain, mp_error *err)
{
    mp_call_chain inner = inner_chain(chain);
    const mp_call_chain_link *link = &chain->links[0];
    for (size_t k = 1; k < chain->n && !link->uses_workspace; k++) link = &chain->links[k];
    launches_call(link->x->workspace, link->uses_workspace ? link->call->workspace_bytes : 0);
    is_running = true;
    const mp_status st = mp_cuda_chain(&inner)(&inner, err);
    is_running = false;
    return st;
}

static mp_call_chain_run chain_of(const mp_backend *self, mp_call_chain *chain)
{
    mp_call_chain inner = inner_chain(chain);
    mp_cuda_use(self);
    if (!mp_cuda_chain(&inner)) return NULL;
    for (size_t k = 0; k < chain->n; k++) chain->links[k].uses_workspace = inner.links[k].uses_workspace;
    return run_chain;
}

/* Adds a result from the previous call's workspace. */
static void add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to)
{
    launches_call(from, n * (mp_dtype_bits(dtype) / 8));
    mp_cuda_add(self, dtype, n, from, to);
}

static void update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors)
{
    launches_call(NULL, 0);
    mp_cuda_update(self, updates, n, factors);
}

static void clip(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor)
{
    launches_call(workspace, mp_cuda_norm_workspace_bytes(self, 0));
    mp_cuda_clip(self, gradients, n, clip_norm, workspace, factor);
}

static void copy(const mp_backend *self, void *to, const void *from, int64_t bytes)
{
    (void)self, (void)to, (void)from, (void)bytes;
    launches_library("cudaMemcpyAsync");
}

static void *allocate(const mp_backend *self, int64_t bytes)
{
    (void)self;
    return launches_allocate(bytes);
}

static void release(const mp_backend *self, void *memory, int64_t bytes)
{
    (void)self, (void)memory, (void)bytes;
}

static void fill(const mp_backend *self, void *memory, unsigned char byte, int64_t bytes)
{
    (void)self, (void)memory, (void)byte, (void)bytes;
}

static int64_t touched(const mp_backend *self, const void *memory, unsigned char byte, int64_t bytes)
{
    (void)self, (void)memory, (void)byte, (void)bytes;
    return 0;
}

static void use(const mp_backend *self)
{
    mp_cuda_use(self);
}

static mp_status open(const mp_backend *self, mp_error *err)
{
    (void)self, (void)err;
    return MP_OK;
}

/* If bodies are skipped, uploaded data are never read. */
static mp_status upload(const mp_backend *self, const mp_array *host, const mp_array *there, mp_error *err)
{
    const mp_cuda_context *c = mp_cuda_use(self);
    return getenv("MEMPLAN_LAUNCHES_ONLY") ? MP_OK : c->host->upload(c->host, host, there, err);
}

/* The download of the loss ends the first step. With a file for the list, prints the counts and ends the process: libraries do
 * not run, so values may be infinite, and `train` would then run the step once more, operator by operator. */
static mp_status download(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err)
{
    const mp_cuda_context *c = mp_cuda_use(self);
    const char *path = getenv("MEMPLAN_LAUNCHES");
    if (path) {
        launches_print(path);
        _Exit(0);
    }
    return c->host->download(c->host, there, host, err);
}

static const mp_device *profile(const mp_backend *self)
{
    (void)self;
    return mp_device_find("h200");
}

__attribute__((visibility("default"))) mp_backend *mp_module_backend(const mp_backend *host, int ordinal)
{
    (void)ordinal;
    context.host = host;
    context.settings.workspace_limit = MP_BACKEND_SETTINGS.workspace_limit;
    context.backend = *host;
    context.backend.name = "cuda";
    context.backend.context = &context;
    context.backend.alignment = 256;
    context.backend.is_host = false;
    context.backend.close = NULL;
    context.backend.device = profile;
    context.backend.use = use;
    context.backend.open = open;
    context.backend.adapt = mp_cuda_adapt;
    context.backend.kernel = kernel;
    context.backend.chain = chain_of;
    context.backend.algorithms = NULL;
    context.backend.begin = mp_cuda_begin;
    context.backend.add = add;
    context.backend.update = update;
    context.backend.norm_workspace_bytes = mp_cuda_norm_workspace_bytes;
    context.backend.clip = clip;
    context.backend.allocate = allocate;
    context.backend.release = release;
    context.backend.fill = fill;
    context.backend.copy = copy;
    context.backend.touched = touched;
    context.backend.upload = upload;
    context.backend.download = download;
    return &context.backend;
}
