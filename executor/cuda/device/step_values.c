/* step_values.c - copies the values of a pass (seed, step number, scalars of updates) from the host to the device, where
 * kernels read them. */
#include "executor/cuda/device/step_values.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"

/* Number of pinned buffers for the copies of a pass's values (seed, step, scalars), used in turn. A new copy waits only if an
 * earlier copy still uses its buffer. */
enum { ROOMS = 2 };

typedef struct step_values {
    mp_cuda_pass pass;
    mp_update_factors factors;
} step_values;

struct mp_cuda_step {
    step_values now;        /* the values (seed, step, scalars) of the most recently enqueued copy */
    step_values *on_device; /* the same values in device memory, which kernels read */
    step_values *leaving;   /* ROOMS buffers in pinned host memory, from which copies to the device are enqueued */
    cudaEvent_t left[ROOMS];
    int turn;
};

mp_status mp_cuda_step_open(mp_cuda_step **out, mp_error *err)
{
    mp_cuda_step *s;
    MP_ENSURE(s = *out = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    for (int k = 0; k < ROOMS; k++) MP_CUDA(cudaEventCreateWithFlags(&s->left[k], cudaEventDisableTiming), err);
    MP_CUDA(cudaHostAlloc((void **)&s->leaving, ROOMS * sizeof *s->leaving, cudaHostAllocDefault), err);
    MP_CUDA(cudaMalloc((void **)&s->on_device, sizeof *s->on_device), err);
    MP_CUDA(cudaMemsetAsync(s->on_device, 0, sizeof *s->on_device, mp_cuda_main_stream()), err);
    return MP_OK;
}

void mp_cuda_step_close(mp_cuda_step *s)
{
    if (!s) return;
    if (s->on_device) cudaFree(s->on_device);
    if (s->leaving) cudaFreeHost(s->leaving);
    for (int k = 0; k < ROOMS; k++)
        if (s->left[k]) cudaEventDestroy(s->left[k]);
    mp_free(s);
}

/* Enqueues the copy of the values s->now to the device. If it fails, the next launch reports the failure. */
static void send(mp_cuda_step *s, cudaStream_t stream)
{
    const int k = s->turn++ % ROOMS;
    cudaEventSynchronize(s->left[k]);
    s->leaving[k] = s->now;
    cudaMemcpyAsync(s->on_device, &s->leaving[k], sizeof s->now, cudaMemcpyHostToDevice, stream);
    cudaEventRecord(s->left[k], stream);
}

static void begin_pass(mp_cuda_step *s, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    s->now.pass = (mp_cuda_pass){seed, step};
    if (factors) s->now.factors = *factors;
    send(s, mp_cuda_main_stream());
}

void mp_cuda_begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    begin_pass(mp_cuda_use(self)->step, seed, step, factors);
}

const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run)
{
    mp_cuda_step *s = mp_cuda_current()->step;
    if (s->now.pass.seed != run->seed || s->now.pass.step != run->step) begin_pass(s, run->seed, run->step, NULL);
    return &s->on_device->pass;
}

const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors)
{
    mp_cuda_step *s = mp_cuda_current()->step;
    if (memcmp(&s->now.factors, factors, sizeof *factors) != 0) {
        s->now.factors = *factors;
        send(s, mp_cuda_stream());
    }
    return &s->on_device->factors;
}
