/* code.cu - tests whether CUDA can load an empty kernel of this module on the current device. */
#ifndef MP_CUDA_TWIN

#include <cuda_runtime.h>

extern "C" {
#include "executor/cuda/device/code.h"
}

static __global__ void nothing() {}

bool mp_cuda_has_code(void)
{
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, nothing) == cudaSuccess;
}
#endif
