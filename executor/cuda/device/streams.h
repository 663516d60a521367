/* streams.h - the two streams of a device: which one is enqueued on, how one waits for the other, what is noted and recorded of
 * them; and a third, on which inputs come. As in mp_backend.
 *
 * Only what the plan puts on the second stream runs there: updates and the norm of gradients, own kernels whose workspace is in
 * the arena. The libraries and their workspaces stay on the first.
 */
#pragma once

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

/* When what was enqueued on the first stream has run, by events. */
typedef struct mp_cuda_times mp_cuda_times;
mp_status mp_cuda_note_time(const mp_backend *self, int k, mp_error *err);
mp_status mp_cuda_seconds_between(const mp_backend *self, int from, int to, double *seconds, mp_error *err);
/* When the device is closed; NULL is fine. */
void mp_cuda_times_close(mp_cuda_times *times);

/* A pass captured as a CUDA graph. */
mp_status mp_cuda_record_begin(const mp_backend *self, mp_error *err);
mp_status mp_cuda_record_end(const mp_backend *self, void **recording, mp_error *err);
mp_status mp_cuda_replay(const mp_backend *self, void *recording, mp_error *err);
void mp_cuda_discard(const mp_backend *self, void *recording);

/* The way of the next batch onto the device, on a stream of its own. */
typedef struct mp_cuda_inputs mp_cuda_inputs;
/* When the device is opened; *out is closed even after a failure. */
mp_status mp_cuda_inputs_open(mp_cuda_inputs **out, mp_error *err);
void mp_cuda_inputs_close(mp_cuda_inputs *inputs); /* NULL is fine */
void *mp_cuda_pin(const mp_backend *self, int64_t bytes);
void mp_cuda_unpin(const mp_backend *self, void *memory);
mp_status mp_cuda_bring(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err);
mp_status mp_cuda_land(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err);
