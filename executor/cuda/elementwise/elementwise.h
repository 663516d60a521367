/* elementwise.h - formulas over operands that broadcast, on the GPU: the engine's functions (mp_engine). All only enqueue.
 * Private to executor/cuda/. */
#ifndef EXECUTOR_CUDA_ELEMENTWISE_H
#define EXECUTOR_CUDA_ELEMENTWISE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/operators/elementwise/elementwise.h"

void mp_cuda_floats(mp_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
void mp_cuda_whole(mp_whole_formula formula, const double *parameters, const mp_array *const *in, int n_in,
                   const mp_array *out);

#ifdef __cplusplus
}
#endif

#endif
