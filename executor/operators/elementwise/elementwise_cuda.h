/* elementwise_cuda.h - formulas over operands that broadcast, on the GPU: the engine's functions (mp_engine). All only enqueue.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/elementwise/elementwise.h"

void mp_cuda_floats(mp_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
void mp_cuda_whole(mp_whole_formula formula, const double *parameters, const mp_array *const *in, int n_in,
                   const mp_array *out);

MP_C_END
