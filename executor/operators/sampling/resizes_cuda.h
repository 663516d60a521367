/* resizes_cuda.h - Resize and Upsample (operators/sampling/resizing.h) on the GPU. Only enqueues. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/sampling/resizing.h"

/* The most dimensions that are resized at once. */
enum { MP_CUDA_RESIZED = 4 };

/* Each position of `to` blends those of `from` that the tables name; the tables are brought to the room first. */
void mp_cuda_resize(const mp_resizing *resizing, const mp_array *from, const mp_array *to, void *room);
int64_t mp_cuda_resize_room(const mp_resizing *resizing);

MP_C_END
