/* twin.c - the GPU's own kernels on the host, as a backend for tests: memory is the CPU's, and so is every kernel that the GPU
 * takes from a library. */
#include "executor/cuda/device/step.h"
#include "executor/cuda/elementwise/updates.h"
#include "executor/cuda/kernels.h"
#include "executor/cuda/moves/bytes.h"
#include "executor/kernel/backend.h"

static mp_cuda_pass pass;
static mp_update_factors step_factors;
static mp_backend twin;
static const mp_backend *host_backend;

void mp_cuda_begin(uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    (void)factors;
    pass = (mp_cuda_pass){seed, step};
}

const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run)
{
    mp_cuda_begin(run->seed, run->step, NULL);
    return &pass;
}

const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors)
{
    step_factors = *factors;
    return &step_factors;
}

static const mp_kernel *kernel(const mp_operator *op)
{
    const mp_kernel *own = mp_cuda_own_kernel(op);
    return own ? own : host_backend->kernel(op);
}

static int64_t touched(const void *memory, unsigned char byte, int64_t bytes)
{
    int64_t n = (bytes + MP_CUDA_STRETCH - 1) / MP_CUDA_STRETCH, end = 0;
    int64_t *ends = mp_alloc((size_t)n, sizeof *ends);
    if (!ends) return bytes;
    mp_cuda_last_others(memory, byte, bytes, ends);
    for (int64_t k = 0; k < n; k++)
        if (ends[k]) end = k * MP_CUDA_STRETCH + ends[k];
    mp_free(ends);
    return end;
}

__attribute__((visibility("default"))) const mp_backend *mp_module_backend(const mp_backend *host)
{
    host_backend = host;
    twin = *host;
    twin.name = "cuda-twin";
    twin.kernel = kernel;
    twin.begin = mp_cuda_begin;
    twin.add = mp_cuda_add;
    twin.update = mp_cuda_update;
    twin.norm_workspace_bytes = mp_cuda_norm_workspace_bytes;
    twin.clip = mp_cuda_clip;
    twin.touched = touched;
    return &twin;
}
