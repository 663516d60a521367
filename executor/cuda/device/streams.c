/* streams.c - the two streams, joined by events, which a capture turns into edges of its graph.
 *
 * Marks take turns with a few events. One whose event has been taken again stands for a later mark of the second stream, and
 * who waits for that has waited for the earlier one.
 */
#include "executor/cuda/device/streams.h"

#include "executor/cuda/device/errors.h"

enum { MARKS = 64 };

static cudaStream_t first, second, current;
static cudaEvent_t issue, marks[MARKS];

mp_status mp_cuda_streams_open(cudaStream_t *out, mp_error *err)
{
    mp_status st = MP_OK;
    MP_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), err);
    MP_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), err);
    MP_CUDA(cudaEventCreateWithFlags(&issue, cudaEventDisableTiming), err);
    for (int k = 0; k < MARKS; k++) MP_CUDA(cudaEventCreateWithFlags(&marks[k], cudaEventDisableTiming), err);
    *out = current = first;
done:
    return st;
}

cudaStream_t mp_cuda_stream(void)
{
    return current;
}

cudaStream_t mp_cuda_main_stream(void)
{
    return first;
}

mp_status mp_cuda_side_begin(mp_error *err)
{
    mp_status st = MP_OK;
    MP_CUDA(cudaEventRecord(issue, first), err);
    MP_CUDA(cudaStreamWaitEvent(second, issue, 0), err);
    current = second;
done:
    return st;
}

mp_status mp_cuda_side_end(int mark, mp_error *err)
{
    current = first;
    return mp_cuda_error(cudaEventRecord(marks[mark % MARKS], second), "issuing an update on the second stream", err);
}

mp_status mp_cuda_side_wait(int mark, mp_error *err)
{
    return mp_cuda_error(cudaStreamWaitEvent(first, marks[mark % MARKS], 0), "waiting for the second stream", err);
}
