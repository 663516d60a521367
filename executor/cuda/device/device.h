/* device.h - opens the GPU of a backend, and provides its profile.
 *
 * A device is opened once, at the first call that needs it, and stays open until its backend is closed. An open device has a
 * CUDA context, the streams for all enqueued work, and the handles of cuDNN and cublasLt. Functions without a backend argument
 * use the backend of the calling thread (current.h). Only one thread may use a backend at a time, except for mp_backend.bring.
 */
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "estimator/training/target.h"
#include "executor/cuda/device/settings.h"
#include "executor/kernel/backend.h"
#include "memplan/backend.h"

typedef struct mp_cuda_device {
    int ordinal;
    int architecture;    /* compute capability times 10: 90 means 9.0 */
    int multiprocessors; /* number of multiprocessors */
    char name[64];
    int64_t memory_bytes;
    cudaStream_t stream;
    cudnnHandle_t dnn; /* cuDNN handle; it uses the first stream of the device */
    cublasLtHandle_t blas;
} mp_cuda_device;

/* Returns the open device, after opening it if necessary. MP_UNSUPPORTED: the GPU or the driver is missing, the driver is too
 * old for this module, or the module has no code for the architecture; the message names the cause. A failure leaves nothing
 * open. */
mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err);
/* Closes the device, which must not be in use; does nothing if it is not open. */
void mp_cuda_close(void);

/* Implements mp_backend.device: returns the profile of the GPU, with its name and memory. Without a GPU, returns the profile
 * of an H200. Does not open the device. */
const mp_device *mp_cuda_profile(const mp_backend *self);

/* Implements mp_backend.memory. The bytes of this process are read with NVML (libnvidia-ml.so.1), if NVML is installed. */
mp_status mp_cuda_memory(const mp_backend *self, mp_backend_memory *now, mp_error *err);
