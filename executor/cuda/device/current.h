/* current.h - the backend of the calling thread, on which its kernels are launched, as CUDA's own calls run on the thread's
 * current device. Private to executor/cuda/. */
#pragma once

#include "memplan/backend.h"

typedef struct mp_cuda_context mp_cuda_context;

/* Makes this the backend of the calling thread and returns its context. Every function of the backend calls it first. */
mp_cuda_context *mp_cuda_use(const mp_backend *backend);
/* Returns the context of the thread's backend; NULL: it has used none yet. */
mp_cuda_context *mp_cuda_current(void);
/* To be called before a context is released: no thread uses it any more. */
void mp_cuda_forget(const mp_cuda_context *context);
