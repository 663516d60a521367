/* softmaxes_cpu.h - functions on a row of n scores, for softmax, losses and attention in tiles. */
#pragma once

#include <math.h>
#include <stdint.h>

float mp_row_largest(const float *x, int64_t n); /* n > 0 */
/* Writes out = e^(x - shift), but 0 where that would be denormal, and returns the sum of it. `out` may be x. */
double mp_row_exponentials(const float *x, int64_t n, float shift, float *out);
void mp_row_scale(const float *x, int64_t n, float factor, float *out); /* out may be x */
double mp_row_dot(const float *x, const float *y, int64_t n);
void mp_row_shift(const float *x, int64_t n, float shift, float *out); /* out = x - shift; out may be x */

/* Accumulates log(sum(e^x)) of a row that comes in parts: the largest x so far, and the sum of e^(x - largest) (Milakov,
 * Gimelshein 2018, "Online normalizer calculation for softmax"). */
typedef struct mp_log_sum {
    float largest;
    double sum;
} mp_log_sum;
static inline mp_log_sum mp_log_sum_none(void)
{
    return (mp_log_sum){-INFINITY, 0};
}
void mp_log_sum_add(mp_log_sum *s, const float *x, int64_t n, float *room); /* n > 0; room: n floats besides x */
float mp_log_sum_value(const mp_log_sum *s);
