/* device.h - the GPU that a backend runs on: how it is opened, its profile, and how it may compute.
 *
 * A device is opened once, at the first call that needs it, and stays open as long as its backend: a CUDA context, the streams
 * on which everything is enqueued, and the handles of cuDNN and cublasLt. Functions without a backend among their arguments
 * mean the one that the calling thread uses (current.h). A backend is used by one thread at a time, but for
 * bring.
 */
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "estimator/training/target.h"
#include "executor/kernel/backend.h"
#include "memplan/backend.h"

typedef struct mp_cuda_device {
    int ordinal;
    int architecture;    /* 90: compute capability 9.0 */
    int multiprocessors; /* how many */
    char name[64];
    int64_t memory_bytes;
    cudaStream_t stream;
    cudnnHandle_t dnn; /* its stream is `stream` */
    cublasLtHandle_t blas;
} mp_cuda_device;

/* The open device. MP_UNSUPPORTED: there is no such GPU, no driver, one too old for this module, or an architecture it has no
 * code for; one sentence says which. What fails half way is undone. */
mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err);
/* Once nothing of it is in use; one that is not open is fine. */
void mp_cuda_close(void);

/* mp_backend's device: the profile of the GPU, by its name and with its memory; of an H200 where there is none. Opens nothing.
 */
const mp_device *mp_cuda_profile(const mp_backend *self);

/* What the user decides about the GPU's arithmetic. Set once, before a program is built; what was prepared keeps what it was
 * prepared with. */
typedef struct mp_cuda_settings {
    bool tf32; /* products and convolutions of float32 may round their factors to 10 bits of mantissa, and use tensor cores */
    bool fast; /* algorithms may differ from run to run in their last bits, and may be less exact (large Winograd tiles, FFT) */
    int64_t workspace_limit; /* bytes that one call of a library may ask for */
} mp_cuda_settings;

const mp_cuda_settings *mp_cuda_settings_get(void);

/* As in mp_backend; the process's own share is NVML's word (libnvidia-ml.so.1, loaded if it is there). */
mp_status mp_cuda_memory(const mp_backend *self, mp_backend_memory *now, mp_error *err);
