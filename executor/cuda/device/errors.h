/* errors.h - converts failures of CUDA, cuDNN and cublasLt to mp_status; the message names the failed function. */
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "memplan/error.h"

/* Example of a message: "cuDNN: ... (in cudnnBackendExecute)". Returns MP_NOMEM if memory is short, else MP_IO. */
mp_status mp_cuda_error(cudaError_t code, const char *what, mp_error *err);
mp_status mp_cudnn_error(cudnnStatus_t code, const char *what, mp_error *err);
mp_status mp_cublas_error(cublasStatus_t code, const char *what, mp_error *err);

#define MP_CUDA_STATUS(call, err) mp_cuda_error((call), #call, (err))
#define MP_CUDNN_STATUS(call, err) mp_cudnn_error((call), #call, (err))
#define MP_CUBLAS_STATUS(call, err) mp_cublas_error((call), #call, (err))

/* As MP_CHECK, for a call of CUDA, cuDNN or cublasLt. */
#define MP_CUDA(call, err) MP_CHECK(MP_CUDA_STATUS(call, err))
#define MP_CUDNN(call, err) MP_CHECK(MP_CUDNN_STATUS(call, err))
#define MP_CUBLAS(call, err) MP_CHECK(MP_CUBLAS_STATUS(call, err))
