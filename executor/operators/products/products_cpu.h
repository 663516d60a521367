/* products_cpu.h - a product of stacks of matrices as an operation of oneDNN. */
#pragma once

#include "executor/cpu/base/dnnl.h"
#include "executor/operators/products/stacks.h"

/* Prepares C = alpha A B, or, with `add`, C += alpha A B. The arguments of the operation are A (DNNL_ARG_SRC), B
 * (DNNL_ARG_WEIGHTS), C (DNNL_ARG_DST) and `bias` (DNNL_ARG_BIAS). `bias` has one value per column; NULL: none. */
mp_status mp_dnnl_matmul(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, const mp_array *bias, bool add,
                         const mp_operator *op, mp_dnnl_op *out, mp_error *err);
