/* device.h - opens the GPU of a backend, and gives its profile and the settings of its arithmetic.
 *
 * A device is opened once, at the first call that needs it, and stays open as long as its backend: a CUDA context, the
 * streams on which everything is enqueued, and the handles of cuDNN and cublasLt. Functions without a backend among their
 * arguments use that of the calling thread (current.h). Only one thread may use a backend at a time, except for
 * mp_backend.bring. */
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "estimator/training/target.h"
#include "executor/kernel/backend.h"
#include "memplan/backend.h"

typedef struct mp_cuda_device {
    int ordinal;
    int architecture;    /* e.g. 90 for compute capability 9.0 */
    int multiprocessors; /* number of multiprocessors */
    char name[64];
    int64_t memory_bytes;
    cudaStream_t stream;
    cudnnHandle_t dnn; /* its stream is `stream` */
    cublasLtHandle_t blas;
} mp_cuda_device;

/* Returns the open device; opens it if needed. MP_UNSUPPORTED: there is no such GPU, no driver, the driver is too old for
 * this module, or the module has no code for the architecture; the message says which. A failed opening is undone. */
mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err);
/* Closes the device, which must not be in use; does nothing if it is not open. */
void mp_cuda_close(void);

/* mp_backend's device: the profile of the GPU, by its name and with its memory; that of an H200 if there is no GPU. Opens
 * nothing. */
const mp_device *mp_cuda_profile(const mp_backend *self);

/* The user's settings of the GPU's arithmetic. Set once, before a program is built; prepared calls keep the settings of
 * their time. */
typedef struct mp_cuda_settings {
    bool
        tf32; /* products and convolutions of float32 may use tensor cores, which round factors to TF32 (10 bits of mantissa) */
    bool fast; /* algorithms may differ from run to run in their last bits, and be less exact (large Winograd tiles, FFT) */
    int64_t workspace_limit; /* most bytes of workspace that one call of a library may ask for */
} mp_cuda_settings;

const mp_cuda_settings *mp_cuda_settings_get(void);

/* mp_backend's memory; the process's own share comes from NVML (libnvidia-ml.so.1, loaded if it is there). */
mp_status mp_cuda_memory(const mp_backend *self, mp_backend_memory *now, mp_error *err);
