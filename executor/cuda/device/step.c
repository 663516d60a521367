/* step.c - the values of a step, on the host where they are written and on the device where they are read. */
#include "executor/cuda/device/step.h"

#include <string.h>

#include "executor/cuda/device/errors.h"
#include "executor/cuda/device/streams.h"

typedef struct step_values {
    mp_cuda_pass pass;
    mp_update_factors factors;
} step_values;

static step_values *on_host, *on_device;

mp_status mp_cuda_step_open(mp_error *err)
{
    mp_status st = MP_OK;
    MP_CUDA(cudaHostAlloc((void **)&on_host, sizeof *on_host, cudaHostAllocDefault), err);
    MP_CUDA(cudaMalloc((void **)&on_device, sizeof *on_device), err);
    memset(on_host, 0, sizeof *on_host);
    MP_CUDA(cudaMemset(on_device, 0, sizeof *on_device), err);
done:
    return st;
}

void mp_cuda_begin(uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    on_host->pass = (mp_cuda_pass){seed, step};
    if (factors) on_host->factors = *factors;
    cudaMemcpyAsync(on_device, on_host, sizeof *on_host, cudaMemcpyHostToDevice, mp_cuda_main_stream());
}

const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run)
{
    if (on_host->pass.seed != run->seed || on_host->pass.step != run->step) mp_cuda_begin(run->seed, run->step, NULL);
    return &on_device->pass;
}

const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors)
{
    if (!memcmp(&on_host->factors, factors, sizeof *factors)) return &on_device->factors;
    on_host->factors = *factors;
    cudaMemcpyAsync(&on_device->factors, &on_host->factors, sizeof on_host->factors, cudaMemcpyHostToDevice, mp_cuda_stream());
    return &on_device->factors;
}
