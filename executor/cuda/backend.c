/* backend.c - the GPU as a backend: its memory, and what the module exports. */
#include "executor/kernel/backend.h"

#include <string.h>

#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "executor/cuda/device/memory.h"
#include "executor/cuda/device/recording.h"
#include "executor/cuda/device/step.h"
#include "executor/cuda/device/streams.h"
#include "executor/cuda/elementwise/updates.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/kernels.h"
#include "executor/cuda/layouts.h"
#include "executor/cuda/moves/bytes.h"
#include "executor/cuda/vendor/dnn_convolutions.h"

/* Pinned memory of the host, through which arrays go whose layout or type changes on the way. Grows, and stays. */
static void *staging;
static size_t staging_bytes;
static const mp_backend *host_backend; /* converts arrays in the program's memory */

static int threads(void)
{
    return 0;
}

static mp_status open_backend(mp_error *err)
{
    const mp_cuda_device *device;
    return mp_cuda_open(&device, err);
}

static void settle(const mp_backend_settings *s)
{
    const mp_cuda_settings settings = {.tf32 = s->tf32, .fast = s->fast, .workspace_limit = s->workspace_limit};
    mp_cuda_settings_set(&settings);
}

static void nothing(void) {}

static void wait_for_stream(void)
{
    cudaStreamSynchronize(mp_cuda_stream());
}

static void *allocate(int64_t bytes)
{
    void *memory = NULL;
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    if (cudaMalloc(&memory, size) != cudaSuccess) {
        cudaGetLastError(); /* or the next launch would be blamed for it */
        return NULL;
    }
    if (cudaMemsetAsync(memory, 0, size, mp_cuda_stream()) == cudaSuccess) return memory;
    cudaFree(memory);
    return NULL;
}

static void release(void *memory, int64_t bytes)
{
    (void)bytes;
    if (memory) cudaFree(memory);
}

static void fill(void *memory, unsigned char byte, int64_t bytes)
{
    if (bytes > 0) cudaMemsetAsync(memory, byte, (size_t)bytes, mp_cuda_stream());
}

static void copy(void *to, const void *from, int64_t bytes)
{
    if (bytes > 0) cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, mp_cuda_stream());
}

static int64_t touched(const void *memory, unsigned char byte, int64_t bytes)
{
    int64_t n = (bytes + MP_CUDA_STRETCH - 1) / MP_CUDA_STRETCH, end = bytes, *there = NULL;
    int64_t *ends = mp_alloc((size_t)n, sizeof *ends);
    if (!ends || cudaMalloc((void **)&there, (size_t)n * sizeof *there) != cudaSuccess) goto done;
    mp_cuda_last_others(memory, byte, bytes, there);
    if (cudaMemcpyAsync(ends, there, (size_t)n * sizeof *ends, cudaMemcpyDeviceToHost, mp_cuda_stream()) != cudaSuccess ||
        cudaStreamSynchronize(mp_cuda_stream()) != cudaSuccess)
        goto done;
    end = 0;
    for (int64_t k = 0; k < n; k++)
        if (ends[k]) end = k * MP_CUDA_STRETCH + ends[k];
done:
    cudaFree(there);
    mp_free(ends);
    return end;
}

static mp_status stage(int64_t bytes, mp_error *err)
{
    mp_status st = MP_OK;
    if ((size_t)bytes <= staging_bytes) return MP_OK;
    cudaFreeHost(staging);
    staging = NULL;
    staging_bytes = 0;
    MP_CUDA(cudaHostAlloc(&staging, (size_t)bytes, cudaHostAllocDefault), err);
    staging_bytes = (size_t)bytes;
done:
    return st;
}

/* Between the host and the device, one way or the other; both ends are done with when it returns. */
static mp_status move(void *to, const void *from, int64_t bytes, enum cudaMemcpyKind kind, mp_error *err)
{
    mp_status st = MP_OK;
    MP_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, kind, mp_cuda_stream()), err);
    MP_CUDA(cudaStreamSynchronize(mp_cuda_stream()), err);
done:
    return st;
}

static bool is_same(const mp_array *a, const mp_array *b)
{
    return a->dtype == b->dtype && mp_array_same_layout(a, b);
}

static mp_status upload(const mp_array *host, const mp_array *there, mp_error *err)
{
    mp_status st = MP_OK;
    int64_t bytes = mp_array_bytes(there);
    if (!bytes) goto done;
    if (is_same(host, there)) return move(there->data, host->data, bytes, cudaMemcpyHostToDevice, err);
    MP_TRY(stage(bytes, err));
    mp_array between = *there;
    between.data = staging;
    MP_TRY(host_backend->upload(host, &between, err));
    MP_TRY(move(there->data, staging, bytes, cudaMemcpyHostToDevice, err));
done:
    return st;
}

static mp_status download(const mp_array *there, const mp_array *host, mp_error *err)
{
    mp_status st = MP_OK;
    int64_t bytes = mp_array_bytes(there);
    if (!bytes) goto done;
    if (is_same(host, there)) return move(host->data, there->data, bytes, cudaMemcpyDeviceToHost, err);
    MP_TRY(stage(bytes, err));
    mp_array between = *there;
    between.data = staging;
    MP_TRY(move(staging, there->data, bytes, cudaMemcpyDeviceToHost, err));
    MP_TRY(host_backend->download(&between, host, err));
done:
    return st;
}

/* A library's kernel, or else an own one. */
static const mp_kernel *kernel(const mp_operator *op)
{
#define TABLE(name) mp_cuda_##name,
    static const mp_kernel *const libraries[] = {MP_CUDA_LIBRARY_FAMILIES(TABLE)};
#undef TABLE
    const mp_kernel *found = mp_kernel_find(libraries, sizeof libraries / sizeof *libraries, op);
    return found ? found : mp_cuda_own_kernel(op);
}

static const mp_backend cuda = {.name = "cuda",
                                .alignment = 256,
                                .threads = threads,
                                .device = mp_cuda_profile,
                                .open = open_backend,
                                .settle = settle,
                                .memory = mp_cuda_memory,
                                .adapt = mp_cuda_adapt,
                                .kernel = kernel,
                                .algorithms = mp_cuda_algorithms,
                                .enter = nothing,
                                .leave = nothing,
                                .begin = mp_cuda_begin,
                                .record_begin = mp_cuda_record_begin,
                                .record_end = mp_cuda_record_end,
                                .replay = mp_cuda_replay,
                                .discard = mp_cuda_discard,
                                .wait = wait_for_stream,
                                .side_begin = mp_cuda_side_begin,
                                .side_end = mp_cuda_side_end,
                                .side_wait = mp_cuda_side_wait,
                                .add = mp_cuda_add,
                                .update = mp_cuda_update,
                                .norm_workspace_bytes = mp_cuda_norm_workspace_bytes,
                                .clip = mp_cuda_clip,
                                .allocate = allocate,
                                .release = release,
                                .fill = fill,
                                .copy = copy,
                                .touched = touched,
                                .upload = upload,
                                .download = download};

__attribute__((visibility("default"))) const mp_backend *mp_module_backend(const mp_backend *host)
{
    host_backend = host;
    return &cuda;
}
