/* streams.h - the two streams of a device: which one is enqueued on, and how one waits for the other. As in mp_backend.
 *
 * Only what the plan puts on the second stream runs there: updates and the norm of gradients, own kernels whose workspace is in
 * the arena. The libraries and their workspaces stay on the first.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include <cuda_runtime.h>

#include "memplan/backend.h"

typedef struct mp_cuda_streams mp_cuda_streams;

/* Makes both streams, and the events between them. When the device is opened; *out is closed even after a failure. */
mp_status mp_cuda_streams_open(mp_cuda_streams **out, mp_error *err);
void mp_cuda_streams_close(mp_cuda_streams *streams); /* NULL is fine */

/* The stream that the calling thread's backend enqueues on: the first, or between side_begin and side_end the second. Its
 * device is open. */
cudaStream_t mp_cuda_stream(void);
cudaStream_t mp_cuda_main_stream(void); /* the first */

mp_status mp_cuda_side_begin(const mp_backend *self, mp_error *err);
mp_status mp_cuda_side_end(const mp_backend *self, int mark, mp_error *err);
mp_status mp_cuda_side_wait(const mp_backend *self, int mark, mp_error *err);

MP_C_END
