/* kernels.h - finds the GPU's own kernel of an operator among its families. Private to executor/cuda/. */
#ifndef EXECUTOR_CUDA_KERNELS_H
#define EXECUTOR_CUDA_KERNELS_H

#include "executor/kernel/kernel.h"

/* The row for an operator in the tables of own kernels, NULL: none. */
const mp_kernel *mp_cuda_own_kernel(const mp_operator *op);

#endif
