/* inputs.c - uploads from pinned memory beside the passes, ordered against the copies that empty their room by an event. */
#include "executor/cuda/device/inputs.h"

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/errors.h"

struct mp_cuda_inputs {
    cudaStream_t stream;
    cudaEvent_t landed; /* on the first stream: what had been brought is where it is read */
};

mp_status mp_cuda_inputs_open(mp_cuda_inputs **out, mp_error *err)
{
    mp_cuda_inputs *i;
    MP_ENSURE(i = *out = mp_alloc(1, sizeof *i), err, MP_NOMEM, "out of memory");
    MP_CUDA(cudaStreamCreateWithFlags(&i->stream, cudaStreamNonBlocking), err);
    MP_CUDA(cudaEventCreateWithFlags(&i->landed, cudaEventDisableTiming), err);
    return MP_OK;
}

void mp_cuda_inputs_close(mp_cuda_inputs *i)
{
    if (!i) return;
    if (i->landed) cudaEventDestroy(i->landed);
    if (i->stream) cudaStreamDestroy(i->stream);
    mp_free(i);
}

void *mp_cuda_pin(const mp_backend *self, int64_t bytes)
{
    void *memory = NULL;
    mp_cuda_use(self);
    if (cudaHostAlloc(&memory, bytes > 0 ? (size_t)bytes : 1, cudaHostAllocDefault) == cudaSuccess) return memory;
    cudaGetLastError(); /* or the next launch would be blamed for it */
    return NULL;
}

void mp_cuda_unpin(const mp_backend *self, void *memory)
{
    mp_cuda_use(self);
    cudaFreeHost(memory);
}

mp_status mp_cuda_bring(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err)
{
    const mp_cuda_inputs *i = mp_cuda_use(self)->inputs;
    MP_CUDA(cudaStreamWaitEvent(i->stream, i->landed, 0), err);
    MP_CUDA(cudaMemcpyAsync(landing, pinned, (size_t)bytes, cudaMemcpyHostToDevice, i->stream), err);
    MP_CUDA(cudaStreamSynchronize(i->stream), err);
    return MP_OK;
}

mp_status mp_cuda_land(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err)
{
    const mp_cuda_inputs *i = mp_cuda_use(self)->inputs;
    MP_CUDA(cudaMemcpyAsync(to, landing, (size_t)bytes, cudaMemcpyDeviceToDevice, mp_cuda_main_stream()), err);
    MP_CUDA(cudaEventRecord(i->landed, mp_cuda_main_stream()), err);
    return MP_OK;
}
