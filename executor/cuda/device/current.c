/* current.c - stores the current backend of each thread. */
#include "executor/cuda/device/current.h"

#include "executor/cuda/device/context.h"

static _Thread_local mp_cuda_context *current;

mp_cuda_context *mp_cuda_use(const mp_backend *backend)
{
    mp_cuda_context *c = backend->context;
    if (c != current && c->is_open) cudaSetDevice(c->device.ordinal);
    return current = c;
}

mp_cuda_context *mp_cuda_current(void)
{
    return current;
}

void mp_cuda_forget(const mp_cuda_context *context)
{
    if (current == context) current = NULL;
}
