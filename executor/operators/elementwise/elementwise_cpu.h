/* elementwise_cpu.h - runs elementwise functions on the CPU over operands of any layout, broadcast to one shape.
 *
 * Dimensions are sorted by the output's strides and merged if all operands permit it. The innermost loop is called a run. Row
 * functions process a run in blocks of at most MP_BLOCK contiguous values. Blocks depend only on the shapes, so results do not
 * depend on the number of threads. */
#pragma once

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/array.h"
#include "executor/operators/elementwise/elementwise.h"

/* Computes out[k] = f(in[0][k], in[1][k], ...) for k < n; out may be any of in. */
typedef void (*mp_row)(const double *parameters, int64_t n, const float *const *in, float *out);
/* A row function for integers, as mp_row; booleans are 0 and 1. */
typedef void (*mp_whole_row)(const double *parameters, int64_t n, const int64_t *const *in, int64_t *out);

/* Runs a row function over operands that are broadcast to the shape of `out`. Types other than FLOAT are converted to and from
 * float when they are read and written. n_in <= MP_OPERANDS_MAX. */
void mp_elementwise(mp_row row, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
/* Runs a row function over integers and booleans; float operands are truncated. */
void mp_elementwise_whole(mp_whole_row row, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);

/* For gradients of biases, scales and scalars: to = scale * (sum of `from`), both float, each sum in a fixed order. The sum
 * runs over the dimensions that have size 1 in `to` or are missing at the front of its shape. `add` accumulates into `to`. */
void mp_cpu_sum_to(const mp_array *from, const mp_array *to, float scale, bool add);
