/* memory.c - what CUDA and NVML say of the memory. */
#include "executor/cuda/device/memory.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "executor/cuda/device/current.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"

/* NVML's functions and types as its documentation has them (API version 3 of the process list); 0 is success. */
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
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no conversion between them */
    return symbol;
}

/* What an initialised NVML says of this process; -1: nothing. In a container it may know processes by other numbers. */
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

/* -1: there is no NVML, or it does not know. Asked a few times in a training: it is not kept. */
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
