/* kernels.h - finds the GPU's own kernel of an operator among its families. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/kernel.h"

/* The row for an operator in the tables of own kernels, NULL: none. */
const mp_kernel *mp_cuda_own_kernel(const mp_operator *op);
