/* streams_recordings.c - a pass as a CUDA graph: captured from the streams once, launched any number of times. */
#include "executor/cuda/device/streams.h"

#include "executor/cuda/device/current.h"
#include "executor/cuda/device/errors.h"
#include "memplan/memory.h"

MP_HANDLE_OWNER(cudaGraphDestroy, cudaGraph_t)
MP_HANDLE_OWNER(cudaGraphExecDestroy, cudaGraphExec_t)

mp_status mp_cuda_record_begin(const mp_backend *self, mp_error *err)
{
    mp_cuda_use(self);
    return mp_cuda_error(cudaStreamBeginCapture(mp_cuda_main_stream(), cudaStreamCaptureModeThreadLocal), "capturing a step",
                         err);
}

mp_status mp_cuda_record_end(const mp_backend *self, void **recording, mp_error *err)
{
    MP_OWNED_BY(cudaGraphDestroy) cudaGraph_t graph = NULL;
    MP_OWNED_BY(cudaGraphExecDestroy) cudaGraphExec_t ready = NULL;
    mp_cuda_use(self);
    MP_CHECK(mp_cuda_error(cudaStreamEndCapture(mp_cuda_main_stream(), &graph),
                           "capturing a step, which --no-graph does without", err));
    MP_CUDA(cudaGraphInstantiate(&ready, graph, 0), err);
    MP_CUDA(cudaGraphUpload(ready, mp_cuda_main_stream()), err);
    *recording = ready;
    ready = NULL;
    return MP_OK;
}

mp_status mp_cuda_replay(const mp_backend *self, void *recording, mp_error *err)
{
    mp_cuda_use(self);
    return mp_cuda_error(cudaGraphLaunch(recording, mp_cuda_main_stream()), "running a captured step", err);
}

void mp_cuda_discard(const mp_backend *self, void *recording)
{
    mp_cuda_use(self);
    cudaGraphExecDestroy(recording);
}
