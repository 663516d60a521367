/* launched.cu - mp_launched for C code. */
#include "executor/cuda/grid/grid.cuh"

extern "C" {
#include "executor/cuda/grid/launched.h"
}

mp_status mp_cuda_launched(mp_error *err)
{
    return mp_launched(err);
}
