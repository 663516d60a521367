/* inputs.h - the way of the next batch onto the device, on a stream of its own. As in mp_backend. Private to executor/cuda/. */
#pragma once

#include "memplan/backend.h"

typedef struct mp_cuda_inputs mp_cuda_inputs;

/* When the device is opened; *out is closed even after a failure. */
mp_status mp_cuda_inputs_open(mp_cuda_inputs **out, mp_error *err);
void mp_cuda_inputs_close(mp_cuda_inputs *inputs); /* NULL is fine */

void *mp_cuda_pin(const mp_backend *self, int64_t bytes);
void mp_cuda_unpin(const mp_backend *self, void *memory);
mp_status mp_cuda_bring(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err);
mp_status mp_cuda_land(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err);
