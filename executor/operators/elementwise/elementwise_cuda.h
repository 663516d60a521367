/* elementwise_cuda.h - formulas over broadcast operands on the GPU: implements the functions of mp_engine (elementwise.h). All
 * functions only enqueue. */
#pragma once

#include "executor/operators/elementwise/elementwise.h"

void mp_cuda_floats(mp_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
void mp_cuda_whole(mp_whole_formula formula, const double *parameters, const mp_array *const *in, int n_in,
                   const mp_array *out);

/* Sums over broadcast dimensions, as mp_engine.sum_to: for gradients of biases, scales and scalars. */
void mp_cuda_sum_to(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace);
int64_t mp_cuda_sum_workspace_bytes(const mp_array *from, const mp_array *to);
