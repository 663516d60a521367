/* streams.h - the two streams of the device: which one is enqueued on, and how one waits for the other. As in mp_backend.
 *
 * Only what the plan issues on the second stream runs there: updates and the norm of gradients, own kernels whose room lies in
 * the arena. The libraries and their workspaces stay on the first.
 */
#ifndef EXECUTOR_CUDA_STREAMS_H
#define EXECUTOR_CUDA_STREAMS_H

#include "executor/cuda/device/cuda.h"

/* Makes both streams, and the events between them; the first is *out. When the device is opened. */
mp_status mp_cuda_streams_open(cudaStream_t *out, mp_error *err);

mp_status mp_cuda_issue_beside(mp_error *err);
mp_status mp_cuda_issued_beside(int mark, mp_error *err);
mp_status mp_cuda_wait_beside(int mark, mp_error *err);

#endif
