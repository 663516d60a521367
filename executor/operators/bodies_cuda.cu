/* bodies_cuda.cu - the operators of bodies.h on the GPU. */
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
