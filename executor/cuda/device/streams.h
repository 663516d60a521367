/* streams.h - the CUDA streams of a device: the first stream for compute, and one stream per other channel of a plan.
 * Implements synchronization, timestamps and recordings of mp_backend, and a stream for the upload of inputs.
 *
 * Only nodes that the plan assigns to other channels run on other streams than the first: updates and the norm of gradients,
 * memplan's own kernels with workspace in the arena, copies to and from pinned memory, and NCCL's exchanges with other ranks.
 * All other libraries and their workspaces use the first stream. */
#pragma once

#include <cuda_runtime.h>

#include "memplan/backend.h"

typedef struct mp_cuda_streams mp_cuda_streams;

/* Creates the first stream when the device is opened. The caller must close *out, even after a failure. */
mp_status mp_cuda_streams_open(mp_cuda_streams **out, mp_error *err);
void mp_cuda_streams_close(mp_cuda_streams *streams); /* does nothing for NULL */

/* Returns the current stream of the calling thread's backend: the first stream, or, between side_begin and side_end, the
 * stream of the channel. The device must be open. */
cudaStream_t mp_cuda_stream(void);
cudaStream_t mp_cuda_main_stream(void); /* returns the first stream */

mp_status mp_cuda_side_begin(const mp_backend *self, int channel, mp_error *err);
mp_status mp_cuda_side_end(const mp_backend *self, int channel, int mark, mp_error *err);
mp_status mp_cuda_side_wait(const mp_backend *self, int channel, int mark, mp_error *err);

/* Timestamps of mp_backend (note_time, seconds_between), as CUDA events on the first stream. */
typedef struct mp_cuda_times mp_cuda_times;
mp_status mp_cuda_note_time(const mp_backend *self, int k, mp_error *err);
mp_status mp_cuda_seconds_between(const mp_backend *self, int from, int to, double *seconds, mp_error *err);
/* Releases the timestamps when the device is closed; does nothing if `times` is NULL. */
void mp_cuda_times_close(mp_cuda_times *times);

/* Implement record_begin, record_end, replay and discard of mp_backend: capture a pass as a CUDA graph
 * (streams_recordings.c). */
mp_status mp_cuda_record_begin(const mp_backend *self, mp_error *err);
mp_status mp_cuda_record_end(const mp_backend *self, void **recording, mp_error *err);
mp_status mp_cuda_replay(const mp_backend *self, void *recording, mp_error *err);
void mp_cuda_discard(const mp_backend *self, void *recording);

/* State of the stream that uploads the next batch, for the functions pin, unpin, bring and land of mp_backend. */
typedef struct mp_cuda_inputs mp_cuda_inputs;
/* Creates the stream when the device is opened. The caller must close *out, even after a failure. */
mp_status mp_cuda_inputs_open(mp_cuda_inputs **out, mp_error *err);
void mp_cuda_inputs_close(mp_cuda_inputs *inputs); /* does nothing for NULL */
void *mp_cuda_pin(const mp_backend *self, int64_t bytes);
void mp_cuda_unpin(const mp_backend *self, void *memory);
mp_status mp_cuda_bring(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err);
mp_status mp_cuda_land(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err);
