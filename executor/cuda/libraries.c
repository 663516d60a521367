/* libraries.c - which kernel runs an operator on the GPU: a library's, or else an own one. */
#include "executor/cuda/libraries.h"

#include "executor/cuda/kernels.h"

static const mp_kernel *const families[] = {mp_cuda_convolutions, mp_cuda_products, mp_cuda_dnn_attentions};

const mp_kernel *mp_cuda_kernel(const mp_operator *op)
{
    const mp_kernel *kernel = mp_kernel_find(families, sizeof families / sizeof *families, op);
    return kernel ? kernel : mp_cuda_own_kernel(op);
}
