/* current.h - the current backend of the calling thread, on which its kernels are launched, like the current device of CUDA.
 * Private to executor/cuda/. */
#pragma once

#include "memplan/backend.h"

typedef struct mp_cuda_context mp_cuda_context;

/* Makes this the backend of the calling thread and returns its context. Every function of the backend calls it first. */
mp_cuda_context *mp_cuda_use(const mp_backend *backend);
/* Returns the context of the thread's backend; NULL: the thread has not used a backend yet. */
mp_cuda_context *mp_cuda_current(void);
/* Must be called before a context is released. Afterwards the context is not the current one of any thread. */
void mp_cuda_forget(const mp_cuda_context *context);
