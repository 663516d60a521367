/* cuda.h - what all files of the GPU module share: the device they run on, and errors of its libraries as ours.
 *
 * The device is opened once, at the first call that needs it, and stays open until the process ends: a CUDA context, the
 * stream on which everything is enqueued, but for the updates that run beside it, and the handles of cuDNN and cublasLt.
 * Nothing here is thread-safe: one thread trains.
 */
#ifndef EXECUTOR_CUDA_CUDA_H
#define EXECUTOR_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "memplan/error.h"

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

/* The open device. MP_UNSUPPORTED: there is no GPU, no driver, one too old for this module, or an architecture it has no code
 * for; one sentence says which. */
mp_status mp_cuda_open(const mp_cuda_device **out, mp_error *err);
/* The stream that is enqueued on: the open device's, or the second one (streams.h); NULL before mp_cuda_open. */
cudaStream_t mp_cuda_stream(void);

/* Fails with what the library says: "cuDNN: ... (in cudnnBackendExecute)". MP_NOMEM where memory is what lacks. */
mp_status mp_cuda_error(cudaError_t code, const char *what, mp_error *err);
mp_status mp_cudnn_error(cudnnStatus_t code, const char *what, mp_error *err);
mp_status mp_cublas_error(cublasStatus_t code, const char *what, mp_error *err);

#define MP_CUDA(call, err) MP_TRY(mp_cuda_error((call), #call, (err)))
#define MP_CUDNN(call, err) MP_TRY(mp_cudnn_error((call), #call, (err)))
#define MP_CUBLAS(call, err) MP_TRY(mp_cublas_error((call), #call, (err)))

#endif
