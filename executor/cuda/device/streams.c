/* streams.c - the two streams, joined by events, which a capture turns into edges of its graph.
 *
 * Marks take turns with a few events. One whose event has been taken again stands for a later mark of the second stream, and
 * who waits for that has waited for the earlier one.
 */
#include "executor/cuda/device/streams.h"

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/errors.h"

enum { MARKS = 64 };

struct mp_cuda_streams {
    cudaStream_t first, second, current;
    cudaEvent_t issue, marks[MARKS];
};

mp_status mp_cuda_streams_open(mp_cuda_streams **out, mp_error *err)
{
    mp_cuda_streams *s;
    MP_ENSURE(s = *out = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    MP_CUDA(cudaStreamCreateWithFlags(&s->first, cudaStreamNonBlocking), err);
    MP_CUDA(cudaStreamCreateWithFlags(&s->second, cudaStreamNonBlocking), err);
    MP_CUDA(cudaEventCreateWithFlags(&s->issue, cudaEventDisableTiming), err);
    for (int k = 0; k < MARKS; k++) MP_CUDA(cudaEventCreateWithFlags(&s->marks[k], cudaEventDisableTiming), err);
    s->current = s->first;
    return MP_OK;
}

void mp_cuda_streams_close(mp_cuda_streams *s)
{
    if (!s) return;
    for (int k = 0; k < MARKS; k++)
        if (s->marks[k]) cudaEventDestroy(s->marks[k]);
    if (s->issue) cudaEventDestroy(s->issue);
    if (s->second) cudaStreamDestroy(s->second);
    if (s->first) cudaStreamDestroy(s->first);
    mp_free(s);
}

cudaStream_t mp_cuda_stream(void)
{
    return mp_cuda_current()->streams->current;
}

cudaStream_t mp_cuda_main_stream(void)
{
    return mp_cuda_current()->streams->first;
}

mp_status mp_cuda_side_begin(const mp_backend *self, mp_error *err)
{
    mp_cuda_streams *s = mp_cuda_use(self)->streams;
    MP_CUDA(cudaEventRecord(s->issue, s->first), err);
    MP_CUDA(cudaStreamWaitEvent(s->second, s->issue, 0), err);
    s->current = s->second;
    return MP_OK;
}

mp_status mp_cuda_side_end(const mp_backend *self, int mark, mp_error *err)
{
    mp_cuda_streams *s = mp_cuda_use(self)->streams;
    s->current = s->first;
    return mp_cuda_error(cudaEventRecord(s->marks[mark % MARKS], s->second), "issuing an update on the second stream", err);
}

mp_status mp_cuda_side_wait(const mp_backend *self, int mark, mp_error *err)
{
    mp_cuda_streams *s = mp_cuda_use(self)->streams;
    return mp_cuda_error(cudaStreamWaitEvent(s->first, s->marks[mark % MARKS], 0), "waiting for the second stream", err);
}
