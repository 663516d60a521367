/* launched.cu - mp_launched for callers in C. */
#include "executor/cuda/grid/grid.cuh"

extern "C" {
#include "executor/cuda/grid/launched.h"
}

mp_status mp_cuda_launched(mp_error *err)
{
    return mp_launched(err);
}
