/* launched.cu - reports failed launches of GPU kernels to C code (mp_launched of grid.cuh). */
#include "executor/cuda/grid/grid.cuh"

extern "C" {
#include "executor/cuda/grid/launched.h"
}

mp_status mp_cuda_launched(mp_error *err)
{
    return mp_launched(err);
}
