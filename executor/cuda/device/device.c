/* device.c - finds and opens the GPU, and describes it to the planner. */
#include "executor/cuda/device/device.h"

#include <stdio.h>
#include <string.h>

#include "executor/cuda/device/code.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/errors.h"

/* Whether there is the GPU, and this module can use it: the driver, then the device. */
static mp_status look(const mp_cuda_context *c, mp_error *err)
{
    int driver = 0, n = 0;
    cudaError_t code = cudaDriverGetVersion(&driver);
    MP_ENSURE(code == cudaSuccess && driver > 0, err, MP_UNSUPPORTED, "--device %s: there is no NVIDIA driver on this machine",
              c->label);
    code = cudaGetDeviceCount(&n);
    MP_ENSURE(code != cudaErrorInsufficientDriver, err, MP_UNSUPPORTED,
              "--device %s: the NVIDIA driver is for CUDA %d.%d, and this build needs %d.%d", c->label, driver / 1000,
              driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    MP_ENSURE(code != cudaErrorNoDevice && (code != cudaSuccess || n > 0), err, MP_UNSUPPORTED,
              "--device %s: there is no NVIDIA GPU here", c->label);
    MP_ENSURE(code == cudaSuccess, err, MP_UNSUPPORTED, "--device %s: the GPU cannot be used: %s", c->label,
              cudaGetErrorString(code));
    MP_ENSURE(c->ordinal < n, err, MP_UNSUPPORTED, "--device %s: the NVIDIA GPUs here are cuda:0 to cuda:%d", c->label, n - 1);
    return MP_OK;
}

static mp_status open_device(mp_cuda_context *c, mp_error *err)
{
    mp_cuda_device *d = &c->device;
    struct cudaDeviceProp p;
    MP_CHECK(look(c, err));
    MP_CUDA(cudaGetDeviceProperties(&p, c->ordinal), err);
    MP_CUDA(cudaSetDevice(c->ordinal), err);
    *d = (mp_cuda_device){.ordinal = c->ordinal,
                          .architecture = p.major * 10 + p.minor,
                          .multiprocessors = p.multiProcessorCount,
                          .memory_bytes = (int64_t)p.totalGlobalMem};
    snprintf(d->name, sizeof d->name, "%.60s", p.name);
    MP_ENSURE(mp_cuda_has_code(), err, MP_UNSUPPORTED,
              "--device %s: %s is of architecture %d.%d, for which this build has no code", c->label, d->name, p.major,
              p.minor);
    MP_CHECK(mp_cuda_streams_open(&c->streams, err));
    d->stream = mp_cuda_stream();
    MP_CHECK(mp_cuda_step_open(&c->step, err));
    MP_CHECK(mp_cuda_inputs_open(&c->inputs, err));
    MP_CUDNN(cudnnCreate(&d->dnn), err);
    MP_CUDNN(cudnnSetStream(d->dnn, d->stream), err);
    MP_CUBLAS(cublasLtCreate(&d->blas), err);
    return MP_OK;
}

static void close_device(mp_cuda_context *c)
{
    if (c->device.blas) cublasLtDestroy(c->device.blas);
    if (c->device.dnn) cudnnDestroy(c->device.dnn);
    mp_cuda_times_close(c->times);
    mp_cuda_inputs_close(c->inputs);
    mp_cuda_step_close(c->step);
    mp_cuda_streams_close(c->streams);
    c->device = (mp_cuda_device){0};
    c->times = NULL;
    c->inputs = NULL;
    c->step = NULL;
    c->streams = NULL;
    c->is_open = false;
}

mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err)
{
    mp_cuda_context *c = mp_cuda_current();
    mp_status st = c->is_open ? MP_OK : open_device(c, err);
    if (st != MP_OK) {
        close_device(c);
        return st;
    }
    c->is_open = true;
    *out = &c->device;
    return MP_OK;
}

void mp_cuda_close(void)
{
    close_device(mp_cuda_current());
}

static const mp_device *profile_of_card(mp_cuda_context *c)
{
    struct cudaDeviceProp p;
    if (c->card.name) return &c->card;
    c->card = *mp_device_find("h200"); /* what dnn_describe.c assumes too */
    c->card.name = "cuda";
    if (look(c, NULL) != MP_OK || cudaGetDeviceProperties(&p, c->ordinal) != cudaSuccess) return &c->card;
    if (mp_device_of_card(p.name)) c->card = *mp_device_of_card(p.name);
    c->card.name = "cuda";
    c->card.memory_bytes = (int64_t)p.totalGlobalMem;
    c->card.reserve_bytes = INT64_C(1) << 30; /* what the card keeps back is not in that memory */
    return &c->card;
}

const mp_device *mp_cuda_profile(const mp_backend *self)
{
    mp_cuda_context *c = mp_cuda_use(self);
    const mp_device *card = profile_of_card(c);
    c->profile = c->settings.tf32 ? mp_device_at_tf32(card) : *card;
    return &c->profile;
}

const mp_cuda_settings *mp_cuda_settings_get(void)
{
    return &mp_cuda_current()->settings;
}
