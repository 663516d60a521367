/* device.c - finds and opens the GPU, and describes it to the planner. */
#include "executor/cuda/device/device.h"

#include <stdio.h>
#include <string.h>

#include "executor/cuda/device/code.h"
#include "executor/cuda/device/errors.h"
#include "executor/cuda/device/step.h"
#include "executor/cuda/device/streams.h"

static mp_cuda_device device;
static bool is_open;
static mp_cuda_settings settings = {.workspace_limit = INT64_C(256) << 20};

/* Whether there is a GPU that this module can use: the driver, then the device. */
static mp_status look(int *ordinal, mp_error *err)
{
    mp_status st = MP_OK;
    int driver = 0, n = 0;
    cudaError_t code = cudaDriverGetVersion(&driver);
    MP_REQUIRE(code == cudaSuccess && driver > 0, err, MP_UNSUPPORTED,
               "--device cuda: there is no NVIDIA driver on this machine");
    code = cudaGetDeviceCount(&n);
    MP_REQUIRE(code != cudaErrorInsufficientDriver, err, MP_UNSUPPORTED,
               "--device cuda: the NVIDIA driver is for CUDA %d.%d, and this build needs %d.%d", driver / 1000,
               driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    MP_REQUIRE(code != cudaErrorNoDevice && (code != cudaSuccess || n > 0), err, MP_UNSUPPORTED,
               "--device cuda: there is no NVIDIA GPU here");
    MP_REQUIRE(code == cudaSuccess, err, MP_UNSUPPORTED, "--device cuda: the GPU cannot be used: %s", cudaGetErrorString(code));
    *ordinal = 0; /* the first that CUDA_VISIBLE_DEVICES shows */
done:
    return st;
}

static mp_status open_device(mp_error *err)
{
    mp_status st = MP_OK;
    struct cudaDeviceProp p;
    MP_TRY(look(&device.ordinal, err));
    MP_CUDA(cudaGetDeviceProperties(&p, device.ordinal), err);
    MP_CUDA(cudaSetDevice(device.ordinal), err);
    device.architecture = p.major * 10 + p.minor;
    device.multiprocessors = p.multiProcessorCount;
    device.memory_bytes = (int64_t)p.totalGlobalMem;
    snprintf(device.name, sizeof device.name, "%.60s", p.name);
    MP_REQUIRE(mp_cuda_has_code(), err, MP_UNSUPPORTED,
               "--device cuda: %s is of architecture %d.%d, for which this build has no code", device.name, p.major, p.minor);
    MP_TRY(mp_cuda_streams_open(&device.stream, err));
    MP_TRY(mp_cuda_step_open(err));
    MP_CUDNN(cudnnCreate(&device.dnn), err);
    MP_CUDNN(cudnnSetStream(device.dnn, device.stream), err);
    MP_CUBLAS(cublasLtCreate(&device.blas), err);
done:
    return st;
}

mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err)
{
    mp_status st = MP_OK;
    if (!is_open) MP_TRY(open_device(err));
    is_open = true;
    *out = &device;
done:
    return st;
}

static const mp_device *profile_of_card(void)
{
    static mp_device profile;
    struct cudaDeviceProp p;
    int ordinal;
    if (profile.name) return &profile;
    profile = *mp_device_find("h200"); /* what dnn_describe.c assumes too */
    profile.name = "cuda";
    if (look(&ordinal, NULL) != MP_OK || cudaGetDeviceProperties(&p, ordinal) != cudaSuccess) return &profile;
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *row = mp_device_row(k);
        char name[sizeof p.name] = "";
        size_t n = 0;
        for (const char *c = p.name; *c && n + 1 < sizeof name; c++) /* "NVIDIA H200" is h200, "... RTX 4090" is rtx4090 */
            if (*c != ' ') name[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        if (strstr(name, row->name)) profile = *row;
    }
    profile.name = "cuda";
    profile.memory_bytes = (int64_t)p.totalGlobalMem;
    return &profile;
}

const mp_device *mp_cuda_profile(void)
{
    static mp_device own;
    const mp_device *card = profile_of_card();
    own = settings.tf32 ? mp_device_at_tf32(card) : *card;
    return &own;
}

const mp_cuda_settings *mp_cuda_settings_get(void)
{
    return &settings;
}

void mp_cuda_settings_set(const mp_cuda_settings *to)
{
    settings = *to;
}
