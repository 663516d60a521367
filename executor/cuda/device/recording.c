/* recording.c - a pass as a CUDA graph: captured from the streams once, launched any number of times. */
#include "executor/cuda/device/recording.h"

#include "executor/cuda/device/errors.h"
#include "executor/cuda/device/streams.h"

mp_status mp_cuda_record_begin(mp_error *err)
{
    return mp_cuda_error(cudaStreamBeginCapture(mp_cuda_stream(), cudaStreamCaptureModeThreadLocal), "capturing a step", err);
}

mp_status mp_cuda_record_end(void **recording, mp_error *err)
{
    mp_status st = MP_OK;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    MP_TRY(
        mp_cuda_error(cudaStreamEndCapture(mp_cuda_stream(), &graph), "capturing a step, which --no-graph does without", err));
    MP_CUDA(cudaGraphInstantiate(&ready, graph, 0), err);
    MP_CUDA(cudaGraphUpload(ready, mp_cuda_stream()), err);
    *recording = ready;
    ready = NULL;
done:
    if (ready) cudaGraphExecDestroy(ready);
    if (graph) cudaGraphDestroy(graph);
    return st;
}

mp_status mp_cuda_replay(void *recording, mp_error *err)
{
    return mp_cuda_error(cudaGraphLaunch(recording, mp_cuda_stream()), "running a captured step", err);
}

void mp_cuda_discard(void *recording)
{
    cudaGraphExecDestroy(recording);
}
