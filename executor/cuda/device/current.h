/* current.h - the current backend of each thread. Kernels that a thread launches run on the thread's current backend, like the
 * current device of CUDA. Private to executor/cuda/. */
#pragma once

#include "memplan/backend.h"

typedef struct mp_cuda_context mp_cuda_context;

/* Makes `backend` the current backend of the calling thread and returns its context. Every function of mp_backend calls this
 * function first. */
mp_cuda_context *mp_cuda_use(const mp_backend *backend);
/* Returns the context of the thread's backend; NULL: the thread has not used a backend yet. */
mp_cuda_context *mp_cuda_current(void);
/* Clears the current context of every thread that uses this context. Must be called before the context is released. */
void mp_cuda_forget(const mp_cuda_context *context);
