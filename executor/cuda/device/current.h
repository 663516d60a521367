/* current.h - the backend that the calling thread uses: where its kernels are launched, as CUDA's own calls run on the device
 * that the thread has set. Private to executor/cuda/. */
#pragma once

#include "memplan/backend.h"

typedef struct mp_cuda_context mp_cuda_context;

/* From now on this thread uses that backend, whose context is returned. Every function of the backend begins with it. */
mp_cuda_context *mp_cuda_use(const mp_backend *backend);
/* The one it has used last; NULL: none yet. */
mp_cuda_context *mp_cuda_current(void);
/* Before a context goes. */
void mp_cuda_forget(const mp_cuda_context *context);
