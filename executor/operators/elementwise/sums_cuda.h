/* sums_cuda.h - the sum over what was broadcast, on the GPU: gradients of biases, scales and scalars; the engine's functions
 * (mp_engine). All only enqueue. */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/kernel/array.h"

void mp_cuda_sum_to(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace);
int64_t mp_cuda_sum_workspace_bytes(const mp_array *from, const mp_array *to);

MP_C_END
