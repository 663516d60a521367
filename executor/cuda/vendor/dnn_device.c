/* dnn_device.c - the GPU that cuDNN plans for: the one at hand, or an assumed one. */
#include <string.h>

#include "executor/cuda/device/cuda.h"
#include "executor/cuda/vendor/dnn_graph.h"

/* An H200, as cuDNN 9.8 and later write down the properties of a device. */
static const char assumed[] = "{\"deviceName\":\"NVIDIA H200\",\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
                              "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
                              "\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
                              "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
                              "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
                              "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
                              "\"totalGlobalMem\":150000000000,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
                              "\"l2CacheSize\":62914560}";

static cudnnBackendDescriptor_t properties;

mp_status mp_dnn_device(cudnnBackendDescriptor_t *out, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_cuda_device *device = NULL;
    cudnnBackendDescriptor_t made = NULL;
    if (properties) {
        *out = properties;
        return MP_OK;
    }
    MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made), err);
    if (mp_cuda_open(&device, NULL) == MP_OK)
        MP_CUDNN(cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &device->dnn), err);
    else
        MP_CUDNN(cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                          (int64_t)strlen(assumed), assumed),
                 err);
    MP_CUDNN(cudnnBackendFinalize(made), err);
    *out = properties = made;
    made = NULL;
done:
    if (made) cudnnBackendDestroyDescriptor(made);
    return st;
}

void mp_dnn_device_forget(void)
{
    if (properties) cudnnBackendDestroyDescriptor(properties);
    properties = NULL;
}
