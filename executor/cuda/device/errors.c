/* errors.c - converts failures of CUDA, cuDNN and cublasLt to mp_status and messages. */
#include "executor/cuda/device/errors.h"

mp_status mp_cuda_error(cudaError_t code, const char *what, mp_error *err)
{
    mp_status status = code == cudaErrorMemoryAllocation ? MP_NOMEM : MP_IO;
    if (code == cudaSuccess) return MP_OK;
    return MP_FAIL(err, status, "the GPU has failed: %s (CUDA, in %.80s)", cudaGetErrorString(code), what);
}

mp_status mp_cudnn_error(cudnnStatus_t code, const char *what, mp_error *err)
{
    if (code == CUDNN_STATUS_SUCCESS) return MP_OK;
    return MP_FAIL(err, code == CUDNN_STATUS_ALLOC_FAILED ? MP_NOMEM : MP_IO, "cuDNN failed: %s (in %.80s)",
                   cudnnGetErrorString(code), what);
}

mp_status mp_cublas_error(cublasStatus_t code, const char *what, mp_error *err)
{
    if (code == CUBLAS_STATUS_SUCCESS) return MP_OK;
    return MP_FAIL(err, code == CUBLAS_STATUS_ALLOC_FAILED ? MP_NOMEM : MP_IO, "cublasLt failed with status %d (in %.80s)",
                   (int)code, what);
}
