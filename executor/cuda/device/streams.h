/* streams.h - the two streams of the device: which one is enqueued on, and how one waits for the other. As in mp_backend.
 *
 * Only what the plan puts on the second stream runs there: updates and the norm of gradients, own kernels whose workspace is in
 * the arena. The libraries and their workspaces stay on the first.
 */
#ifndef EXECUTOR_CUDA_STREAMS_H
#define EXECUTOR_CUDA_STREAMS_H

#ifdef __cplusplus
extern "C" {
#endif

#include <cuda_runtime.h>

#include "memplan/error.h"

/* Makes both streams, and the events between them; the first is *out. When the device is opened. */
mp_status mp_cuda_streams_open(cudaStream_t *out, mp_error *err);
/* The stream that is enqueued on: the first, or between side_begin and side_end the second; NULL before the device is open. */
cudaStream_t mp_cuda_stream(void);
cudaStream_t mp_cuda_main_stream(void); /* the first */

mp_status mp_cuda_side_begin(mp_error *err);
mp_status mp_cuda_side_end(int mark, mp_error *err);
mp_status mp_cuda_side_wait(int mark, mp_error *err);

#ifdef __cplusplus
}
#endif

#endif
