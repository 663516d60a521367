/* twin.c - the GPU's own kernels on the host, as a backend for tests. Matrix products make the GPU's calls to a cublasLt on the
 * host (blas/), if the twin is built with CUDA's headers. Memory and all other kernels are the CPU's. */
#include "estimator/base/memory.h"
#include "executor/cuda/device/current.h"
#include "executor/cuda/device/settings.h"
#include "executor/cuda/device/step_values.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/vendor/blas_products.h"
#include "executor/kernel/backend.h"
#include "executor/operators/aligned_rows.h"
#include "executor/operators/attention/packed_operands.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/fusions.h"
#include "executor/operators/updates/updates_cuda.h"
#include "tests/cuda/twin/twin_recurrents.h"

struct mp_cuda_context {
    mp_backend backend;
    const mp_backend *host;
    mp_cuda_pass pass;
    mp_update_factors factors;
    mp_cuda_settings settings;
};

/* Absent if the twin is built without CUDA's headers. */
#pragma weak mp_cuda_products
#pragma weak mp_cuda_product_algorithms

static _Thread_local mp_cuda_context *current;

mp_cuda_context *mp_cuda_use(const mp_backend *backend)
{
    return current = backend->context;
}

static void use(const mp_backend *self)
{
    mp_cuda_use(self);
}

static void close_twin(mp_backend *self)
{
    if (current == self->context) current = NULL;
    mp_free(self->context);
}

static void settle(const mp_backend *self, const mp_backend_settings *s)
{
    mp_cuda_use(self)->settings = (mp_cuda_settings){.tf32 = s->tf32, .fast = s->fast, .workspace_limit = s->workspace_limit};
}

const mp_cuda_settings *mp_cuda_settings_get(void)
{
    return &current->settings;
}

void mp_cuda_begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    (void)factors;
    mp_cuda_use(self)->pass = (mp_cuda_pass){seed, step};
}

const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run)
{
    current->pass = (mp_cuda_pass){run->seed, run->step};
    return &current->pass;
}

const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors)
{
    current->factors = *factors;
    return &current->factors;
}

static const mp_kernel *kernel(const mp_backend *self, const mp_operator *op)
{
    const mp_backend *host = mp_cuda_use(self)->host;
    static const mp_kernel *const recurrents[] = {mp_twin_recurrents};
    const mp_kernel *const products[] = {mp_cuda_products};
    const mp_kernel *own = mp_cuda_own_kernel(op);
    if (!own) own = mp_kernel_find(recurrents, 1, op);
    if (!own && mp_cuda_products) own = mp_kernel_find(products, 1, op);
    return own ? own : host->kernel(host, op);
}

static mp_status algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err)
{
    const mp_backend *host = mp_cuda_use(self)->host;
    const mp_kernel *const products[] = {mp_cuda_products};
    out->n = 0;
    if (mp_cuda_products && mp_kernel_find(products, 1, x->op)) return mp_cuda_product_algorithms(x, out, err);
    return host->algorithms(host, x, out, err);
}

static mp_call_chain_run chain(const mp_backend *self, mp_call_chain *links)
{
    mp_cuda_use(self);
    return mp_cuda_chain(links);
}

static mp_status adapt(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err)
{
    const mp_backend *host = mp_cuda_use(self)->host;
    MP_CHECK(host->adapt(host, model, dtype, err));
    MP_CHECK(mp_align_rows(model, err));
    MP_CHECK(mp_pack_attention(model, err));
    return mp_fuse_batch_normalizations(model, err);
}

static int64_t touched(const mp_backend *self, const void *memory, unsigned char byte, int64_t bytes)
{
    int64_t n = (bytes + MP_CUDA_STRETCH - 1) / MP_CUDA_STRETCH, end = 0;
    int64_t *ends = mp_alloc((size_t)n, sizeof *ends);
    (void)self;
    if (!ends) return bytes;
    mp_cuda_last_others(memory, byte, bytes, ends);
    for (int64_t k = 0; k < n; k++)
        if (ends[k]) end = k * MP_CUDA_STRETCH + ends[k];
    mp_free(ends);
    return end;
}

/* Functions inherited from the host receive the twin as context; they store nothing in it. */
__attribute__((visibility("default"))) mp_backend *mp_module_backend(const mp_backend *host, int ordinal)
{
    mp_cuda_context *c = mp_alloc(1, sizeof *c);
    (void)ordinal;
    if (!c) return NULL;
    c->host = host;
    c->backend = *host;
    c->settings.workspace_limit = MP_BACKEND_SETTINGS.workspace_limit;
    c->backend.name = "cuda-twin";
    c->backend.alignment = 256;
    c->backend.gives_mask_gradients = false;
    c->backend.context = c;
    c->backend.use = use;
    c->backend.close = close_twin;
    c->backend.settle = settle;
    c->backend.adapt = adapt;
    c->backend.kernel = kernel;
    c->backend.algorithms = algorithms;
    c->backend.chain = chain;
    c->backend.begin = mp_cuda_begin;
    c->backend.add = mp_cuda_add;
    c->backend.update = mp_cuda_update;
    c->backend.norm_workspace_bytes = mp_cuda_norm_workspace_bytes;
    c->backend.clip = mp_cuda_clip;
    c->backend.touched = touched;
    return &c->backend;
}
