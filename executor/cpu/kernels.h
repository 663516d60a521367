/* kernels.h - finds the CPU's kernel of an operator among its families. Private to executor/cpu/. */
#pragma once

#include "executor/cpu/base/families.h"

/* The row for an operator, NULL: none. */
const mp_kernel *mp_cpu_kernel(const mp_operator *op);
