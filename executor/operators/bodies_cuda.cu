/* bodies_cuda.cu - defines the GPU kernels of the operators in bodies.h, which are written once for all backends. */
#include "executor/cuda/grid/bodies.cuh"

extern "C" {
#include "executor/cuda/grid/families.h"
#include "executor/operators/bodies.h"
}

namespace
{

MP_BODY_KERNELS

} // namespace

extern "C" const mp_kernel mp_cuda_bodies[] = {MP_BODY_ROWS{}};
