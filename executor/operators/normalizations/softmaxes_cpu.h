/* softmaxes_cpu.h - functions on a row of n scores on the CPU. Softmax, losses and attention use them. */
#pragma once

#include <math.h>
#include <stdint.h>

float mp_row_largest(const float *x, int64_t n); /* returns the maximum; n > 0 */
/* Writes out = e^(x - shift), but 0 instead of denormal results, and returns the sum. `out` may be x. */
double mp_row_exponentials(const float *x, int64_t n, float shift, float *out);
void mp_row_scale(const float *x, int64_t n, float factor, float *out); /* out = factor * x; out may be x */
double mp_row_dot(const float *x, const float *y, int64_t n);
void mp_row_shift(const float *x, int64_t n, float shift, float *out); /* out = x - shift; out may be x */

/* Accumulates log(sum(e^x)) of a row that is processed in parts: the current maximum, and the sum of e^(x - maximum) (Milakov,
 * Gimelshein 2018, "Online normalizer calculation for softmax"). */
typedef struct mp_log_sum {
    float largest;
    double sum;
} mp_log_sum;
static inline mp_log_sum mp_log_sum_none(void)
{
    return (mp_log_sum){-INFINITY, 0};
}
void mp_log_sum_add(mp_log_sum *s, const float *x, int64_t n,
                    float *room); /* adds n elements x to the sum, n > 0; room: a separate buffer of n floats */
float mp_log_sum_value(const mp_log_sum *s);
