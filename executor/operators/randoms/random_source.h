/* random_source.h - tensors of random numbers, drawn from philox.h by (seed, step, operator, element): what an operator draws,
 * read when its call is prepared, and the formula of one element, for every backend.
 *
 * The element is counted in the order of memory; layouts are fixed, so every recomputation draws the same.
 */
#pragma once

#include <math.h>

#include "executor/kernel/kernel.h"
#include "executor/kernel/philox.h"

typedef enum mp_distribution { MP_UNIFORM, MP_NORMAL, MP_BERNOULLI } mp_distribution;

typedef struct mp_random_source {
    mp_distribution distribution;
    double a, b; /* low and high; mean and scale */
    int64_t n;   /* elements */
} mp_random_source;

/* RandomUniform, RandomNormal, their Like forms, Bernoulli: an mp_random_source becomes the call's state; its `run` is the
 * backend's. MP_UNSUPPORTED: a type of less than a byte, FLOAT16, or probabilities that are neither FLOAT nor BFLOAT16. */
mp_status mp_random_source_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* Element `e`; `probability`: of a one, for BERNOULLI only. */
MP_INLINE double mp_random_value(const mp_random_source *s, uint64_t seed, uint32_t step, uint32_t op, uint64_t e,
                                 double probability)
{
    if (s->distribution == MP_NORMAL) { /* Box, Muller 1958 */
        double u = 1 - (double)mp_random_uniform(seed, step, op, 2 * e),
               v = (double)mp_random_uniform(seed, step, op, 2 * e + 1);
        return s->a + s->b * sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    }
    double u = (double)mp_random_uniform(seed, step, op, e);
    return s->distribution == MP_UNIFORM ? s->a + (s->b - s->a) * u : (double)(u < probability);
}
