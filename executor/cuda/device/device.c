/* device.c - finds and opens the GPU, and describes it to the planner. */
#include "executor/cuda/device/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/cuda/device/code.h"
#include "executor/cuda/device/context.h"
#include "executor/cuda/device/current.h"
#include "executor/cuda/device/errors.h"

/* Finds the driver and the GPU, and checks that this module supports them. */
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
              "--device %s: there is no NVIDIA GPU on this machine", c->label);
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
              "--device %s: %s has the architecture %d.%d, for which this build contains no code", c->label, d->name, p.major,
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
    c->card = *mp_device_find("h200"); /* without a GPU, memplan plans for an H200, as dnn_describe.c does */
    c->card.name = "cuda";
    if (look(c, NULL) != MP_OK || cudaGetDeviceProperties(&p, c->ordinal) != cudaSuccess) return &c->card;
    if (mp_device_of_card(p.name)) c->card = *mp_device_of_card(p.name);
    c->card.name = "cuda";
    c->card.memory_bytes = (int64_t)p.totalGlobalMem;
    /* reserve_bytes is smaller here than for other devices, because totalGlobalMem already excludes the memory that the card
     * reserves */
    c->card.reserve_bytes = INT64_C(1) << 30;
    return &c->card;
}

const mp_device *mp_cuda_profile(const mp_backend *self)
{
    mp_cuda_context *c = mp_cuda_use(self);
    const mp_device *card = profile_of_card(c);
    c->profile = c->settings.tf32 ? mp_device_at_tf32(card) : *card;
    c->profile.rates = c->settings.rates;
    return &c->profile;
}

/* ---- device memory, from CUDA and NVML. */

/* NVML's functions and types, from its documentation (API version 3 of the process list); 0 is success. */
typedef struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
} nvml_process;
typedef struct nvml_device *nvml_handle;

typedef struct nvml {
    int (*init)(void);
    int (*handle_by_bus)(const char *bus, nvml_handle *device);
    int (*processes)(nvml_handle device, unsigned *n, nvml_process *list);
    int (*shutdown)(void);
} nvml;

enum { PROCESSES = 256 };

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    /* memcpy converts the symbol, because ISO C cannot convert an object pointer to a function pointer */
    memcpy(function, &symbol, sizeof symbol);
    return symbol;
}

/* Returns the device memory of this process in bytes, from an initialised NVML. -1: the process is not listed, for example in
 * a container with its own process numbers. */
static int64_t bytes_by(const nvml *library, int ordinal)
{
    nvml_process list[PROCESSES];
    char bus[32];
    nvml_handle device;
    unsigned n = PROCESSES;
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) != cudaSuccess) return -1;
    if (library->handle_by_bus(bus, &device) != 0 || library->processes(device, &n, list) != 0) return -1;
    for (unsigned k = 0; k < n && k < PROCESSES; k++)
        if (list[k].pid == (unsigned)getpid() && list[k].used_bytes <= INT64_MAX) return (int64_t)list[k].used_bytes;
    return -1;
}

/* Returns the device memory of this process in bytes; -1: NVML is not available, or does not report it. The function is called
 * rarely, so it unloads NVML at its end. */
static int64_t process_bytes(int ordinal)
{
    nvml of;
    int64_t bytes = -1;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library && find(library, "nvmlInit_v2", &of.init) &&
        find(library, "nvmlDeviceGetHandleByPciBusId_v2", &of.handle_by_bus) &&
        find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &of.processes) &&
        find(library, "nvmlShutdown", &of.shutdown) && of.init() == 0) {
        bytes = bytes_by(&of, ordinal);
        of.shutdown();
    }
    if (library) dlclose(library);
    return bytes;
}

mp_status mp_cuda_memory(const mp_backend *self, mp_backend_memory *now, mp_error *err)
{
    const mp_cuda_device *device;
    size_t free_bytes, total_bytes;
    mp_cuda_use(self);
    MP_CHECK(mp_cuda_open(&device, err));
    MP_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes), err);
    *now = (mp_backend_memory){(int64_t)total_bytes, (int64_t)free_bytes, process_bytes(device->ordinal)};
    return MP_OK;
}
