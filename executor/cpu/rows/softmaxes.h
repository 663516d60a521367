/* softmaxes.h - a row of n scores: for softmax, losses and attention in tiles. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_SOFTMAXES_H
#define EXECUTOR_CPU_SOFTMAXES_H

#include <stdint.h>

float mp_row_largest(const float *x, int64_t n); /* n > 0 */
/* out = e^(x - shift), and its sum; where that would be too small to be a normal number it is 0. `out` may be x. */
double mp_row_exponentials(const float *x, int64_t n, float shift, float *out);
void mp_row_scale(const float *x, int64_t n, float factor, float *out); /* out may be x */
double mp_row_dot(const float *x, const float *y, int64_t n);
/* out = x - log(sum(e^x)); room: MP_BLOCK floats. out may be x. */
void mp_row_log_softmax(const float *x, int64_t n, float *out, float *room);

#endif
