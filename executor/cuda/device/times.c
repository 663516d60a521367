/* times.c - one event per note, made when it is first needed. */
#include "executor/cuda/device/times.h"

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/errors.h"

struct mp_cuda_times {
    cudaEvent_t *events;
    size_t n, capacity;
};

mp_status mp_cuda_note_time(const mp_backend *self, int k, mp_error *err)
{
    mp_cuda_context *c = mp_cuda_use(self);
    mp_cuda_times *t = c->times;
    if (!t) MP_ENSURE(t = c->times = mp_alloc(1, sizeof *t), err, MP_NOMEM, "out of memory");
    MP_ENSURE(mp_grow(&t->events, &t->capacity, (size_t)k + 1, sizeof *t->events), err, MP_NOMEM, "out of memory");
    for (; t->n <= (size_t)k; t->n++) MP_CUDA(cudaEventCreate(&t->events[t->n]), err);
    MP_CUDA(cudaEventRecord(t->events[k], mp_cuda_main_stream()), err);
    return MP_OK;
}

mp_status mp_cuda_seconds_between(const mp_backend *self, int from, int to, double *seconds, mp_error *err)
{
    const mp_cuda_times *t = mp_cuda_use(self)->times;
    float milliseconds = 0;
    MP_CUDA(cudaEventSynchronize(t->events[to]), err);
    MP_CUDA(cudaEventElapsedTime(&milliseconds, t->events[from], t->events[to]), err);
    *seconds = (double)milliseconds / 1000;
    return MP_OK;
}

void mp_cuda_times_close(mp_cuda_times *t)
{
    if (!t) return;
    for (size_t k = 0; k < t->n; k++) cudaEventDestroy(t->events[k]);
    mp_free(t->events);
    mp_free(t);
}
