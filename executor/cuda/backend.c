/* backend.c - implements mp_backend for the GPU, and exports the module's symbol. */
#include "executor/kernel/backend.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "executor/cuda/device/step_values.h"
#include "executor/cuda/device/streams.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/layouts.h"
#include "executor/cuda/vendor/blas_products.h"
#include "executor/cuda/vendor/dnn_attention.h"
#include "executor/cuda/vendor/dnn_convolutions.h"
#include "executor/cuda/vendor/dnn_graph.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/updates/updates_cuda.h"

static int threads(const mp_backend *self)
{
    (void)self;
    return 0;
}

static void use(const mp_backend *self)
{
    mp_cuda_use(self);
}

static mp_status open_backend(const mp_backend *self, mp_error *err)
{
    const mp_cuda_device *device;
    mp_cuda_use(self);
    return mp_cuda_open(&device, err);
}

static void close_backend(mp_backend *self)
{
    mp_cuda_context *c = mp_cuda_use(self);
    if (c->is_open) cudaStreamSynchronize(mp_cuda_main_stream());
    mp_dnn_forget();
    cudaFreeHost(c->staging);
    mp_cuda_close();
    mp_cuda_forget(c);
    mp_free(c);
}

static void settle(const mp_backend *self, const mp_backend_settings *s)
{
    mp_cuda_use(self)->settings =
        (mp_cuda_settings){.tf32 = s->tf32, .fast = s->fast, .workspace_limit = s->workspace_limit, .rates = s->rates};
}

static void nothing(const mp_backend *self)
{
    (void)self;
}

static mp_status wait_for_stream(const mp_backend *self, mp_error *err)
{
    mp_cuda_use(self);
    return mp_cuda_error(cudaStreamSynchronize(mp_cuda_stream()), "waiting for the device", err);
}

static mp_status has_run(const mp_backend *self, bool *all, mp_error *err)
{
    mp_cuda_use(self);
    const cudaError_t code = cudaStreamQuery(mp_cuda_main_stream());
    *all = code != cudaErrorNotReady;
    return *all ? mp_cuda_error(code, "waiting for the device", err) : MP_OK;
}

static void *stream(const mp_backend *self)
{
    mp_cuda_use(self);
    return mp_cuda_stream();
}

static void *allocate(const mp_backend *self, int64_t bytes)
{
    void *memory = NULL;
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    mp_cuda_use(self);
    if (cudaMalloc(&memory, size) != cudaSuccess) {
        cudaGetLastError(); /* clears CUDA's last error; otherwise the next launch would report it */
        return NULL;
    }
    /* the fill must have ended, because the next copy to this memory may run on another stream */
    if (cudaMemsetAsync(memory, 0, size, mp_cuda_stream()) == cudaSuccess &&
        cudaStreamSynchronize(mp_cuda_stream()) == cudaSuccess)
        return memory;
    cudaFree(memory);
    return NULL;
}

static void release(const mp_backend *self, void *memory, int64_t bytes)
{
    mp_cuda_use(self);
    (void)bytes;
    if (memory) cudaFree(memory);
}

static void fill(const mp_backend *self, void *memory, unsigned char byte, int64_t bytes)
{
    mp_cuda_use(self);
    if (bytes > 0) cudaMemsetAsync(memory, byte, (size_t)bytes, mp_cuda_stream());
}

static void copy(const mp_backend *self, void *to, const void *from, int64_t bytes)
{
    mp_cuda_use(self);
    if (bytes > 0) cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, mp_cuda_stream());
}

static int64_t touched(const mp_backend *self, const void *memory, unsigned char byte, int64_t bytes)
{
    const int64_t n = (bytes + MP_CUDA_STRETCH - 1) / MP_CUDA_STRETCH;
    int64_t end = 0, *there = NULL;
    MP_OWNED int64_t *ends = mp_alloc((size_t)n, sizeof *ends);
    mp_cuda_use(self);
    bool known = ends && cudaMalloc((void **)&there, (size_t)n * sizeof *there) == cudaSuccess;
    if (known) mp_cuda_last_others(memory, byte, bytes, there);
    known = known &&
            cudaMemcpyAsync(ends, there, (size_t)n * sizeof *ends, cudaMemcpyDeviceToHost, mp_cuda_stream()) == cudaSuccess &&
            cudaStreamSynchronize(mp_cuda_stream()) == cudaSuccess;
    cudaFree(there);
    cudaGetLastError(); /* clears CUDA's last error; otherwise the next launch would report it */
    if (!known) return bytes;
    for (int64_t k = 0; k < n; k++)
        if (ends[k]) end = k * MP_CUDA_STRETCH + ends[k];
    return end;
}

static mp_status stage(mp_cuda_context *c, int64_t bytes, mp_error *err)
{
    if ((size_t)bytes <= c->staging_bytes) return MP_OK;
    cudaFreeHost(c->staging);
    c->staging = NULL;
    c->staging_bytes = 0;
    MP_CUDA(cudaHostAlloc(&c->staging, (size_t)bytes, cudaHostAllocDefault), err);
    c->staging_bytes = (size_t)bytes;
    return MP_OK;
}

/* Copies between host memory and device or pinned memory, and waits until both buffers may be reused. */
static mp_status move(void *to, const void *from, int64_t bytes, mp_error *err)
{
    MP_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, mp_cuda_stream()), err);
    MP_CUDA(cudaStreamSynchronize(mp_cuda_stream()), err);
    return MP_OK;
}

static bool is_same(const mp_array *a, const mp_array *b)
{
    return a->dtype == b->dtype && mp_array_same_layout(a, b);
}

static mp_status upload(const mp_backend *self, const mp_array *host, const mp_array *there, mp_error *err)
{
    mp_cuda_context *c = mp_cuda_use(self);
    int64_t bytes = mp_array_bytes(there);
    if (!bytes) return MP_OK;
    if (is_same(host, there)) return move(there->data, host->data, bytes, err);
    MP_CHECK(stage(c, bytes, err));
    mp_array between = *there;
    between.data = c->staging;
    MP_CHECK(c->host->upload(c->host, host, &between, err));
    return move(there->data, c->staging, bytes, err);
}

static mp_status download(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err)
{
    mp_cuda_context *c = mp_cuda_use(self);
    int64_t bytes = mp_array_bytes(there);
    if (!bytes) return MP_OK;
    if (is_same(host, there)) return move(host->data, there->data, bytes, err);
    MP_CHECK(stage(c, bytes, err));
    mp_array between = *there;
    between.data = c->staging;
    MP_CHECK(move(c->staging, there->data, bytes, err));
    return c->host->download(c->host, &between, host, err);
}

/* Returns the kernel that uses cuDNN or cublasLt for the operator, if there is one, else memplan's own kernel. */
static mp_call_chain_run chain(const mp_backend *self, mp_call_chain *links)
{
    mp_cuda_use(self);
    return mp_cuda_chain(links);
}

static const mp_kernel *kernel(const mp_backend *self, const mp_operator *op)
{
    (void)self;
#define TABLE(name) mp_cuda_##name,
    static const mp_kernel *const libraries[] = {MP_CUDA_LIBRARY_FAMILIES(TABLE)};
#undef TABLE
    const mp_kernel *found = mp_kernel_find(libraries, sizeof libraries / sizeof *libraries, op);
    return found ? found : mp_cuda_own_kernel(op);
}

static mp_status algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err)
{
    mp_cuda_use(self);
    MP_CHECK(mp_cuda_convolution_algorithms(x, out, err));
    MP_CHECK(mp_cuda_attention_algorithms(x, out, err));
    return mp_cuda_product_algorithms(x, out, err);
}

static const mp_backend functions = {.name = "cuda",
                                     .alignment = 256,
                                     .threads = threads,
                                     .device = mp_cuda_profile,
                                     .use = use,
                                     .open = open_backend,
                                     .close = close_backend,
                                     .settle = settle,
                                     .memory = mp_cuda_memory,
                                     .adapt = mp_cuda_adapt,
                                     .kernel = kernel,
                                     .chain = chain,
                                     .algorithms = algorithms,
                                     .enter = nothing,
                                     .leave = nothing,
                                     .begin = mp_cuda_begin,
                                     .record_begin = mp_cuda_record_begin,
                                     .record_end = mp_cuda_record_end,
                                     .replay = mp_cuda_replay,
                                     .discard = mp_cuda_discard,
                                     .wait = wait_for_stream,
                                     .has_run = has_run,
                                     .note_time = mp_cuda_note_time,
                                     .seconds_between = mp_cuda_seconds_between,
                                     .side_begin = mp_cuda_side_begin,
                                     .side_end = mp_cuda_side_end,
                                     .side_wait = mp_cuda_side_wait,
                                     .stream = stream,
                                     .add = mp_cuda_add,
                                     .update = mp_cuda_update,
                                     .norm_workspace_bytes = mp_cuda_norm_workspace_bytes,
                                     .clip = mp_cuda_clip,
                                     .allocate = allocate,
                                     .release = release,
                                     .fill = fill,
                                     .copy = copy,
                                     .touched = touched,
                                     .pin = mp_cuda_pin,
                                     .unpin = mp_cuda_unpin,
                                     .bring = mp_cuda_bring,
                                     .land = mp_cuda_land,
                                     .upload = upload,
                                     .download = download};

__attribute__((visibility("default"))) mp_backend *mp_module_backend(const mp_backend *host, int ordinal)
{
    mp_cuda_context *c = mp_alloc(1, sizeof *c);
    if (!c) return NULL;
    c->backend = functions;
    c->backend.context = c;
    c->host = host;
    c->ordinal = ordinal;
    c->settings.workspace_limit = MP_BACKEND_SETTINGS.workspace_limit;
    snprintf(c->label, sizeof c->label, ordinal ? "cuda:%d" : "cuda", ordinal);
    return &c->backend;
}
