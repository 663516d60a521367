/* kernels.c - the families of own kernels, one after the other. */
#include "executor/cuda/kernels.h"

#include "executor/cuda/grid/families.h"

#define TABLE(name) mp_cuda_##name,
static const mp_kernel *const families[] = {MP_CUDA_FAMILIES(TABLE)};
#undef TABLE

const mp_kernel *mp_cuda_own_kernel(const mp_operator *op)
{
    return mp_kernel_find(families, sizeof families / sizeof *families, op);
}
