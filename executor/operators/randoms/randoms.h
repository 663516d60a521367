/* randoms.h - Dropout, and tensors of random numbers: what an operator draws, read from its operands when a call is prepared,
 * and the formula of one element. For every backend.
 *
 * Numbers are drawn from philox.h by (seed, step, operator, element). The element is counted in the order of memory; layouts
 * are fixed, so forward, backward and every recomputation draw the same.
 */
#pragma once

#include "executor/kernel/body.h"
#include "executor/kernel/philox.h"

/* An element is dropped where its uniform number is below the ratio. */
typedef struct mp_dropout {
    float ratio;
    bool drops; /* false: it copies */
    int64_t n;  /* elements */
} mp_dropout;

/* An mp_dropout becomes the call's state. MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16, operands of two layouts,
 * or a ratio that is computed; MP_NOMEM. */
mp_status mp_dropout_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* What is kept grows by this. */
MP_INLINE float mp_dropout_factor(float ratio)
{
    return ratio < 1 ? 1 / (1 - ratio) : 0;
}

typedef enum mp_distribution { MP_UNIFORM, MP_NORMAL, MP_BERNOULLI } mp_distribution;

typedef struct mp_random_source {
    mp_distribution distribution;
    double a, b; /* low and high; mean and scale */
    uint32_t op;
    const uint64_t *seed; /* of the run, where the backend reads them */
    const uint32_t *step;
    mp_array probabilities, out; /* probabilities: of a one, for BERNOULLI only */
} mp_random_source;

/* The operators that are random sources. */
#define MP_RANDOM_SOURCES(X) X("RandomUniform") X("RandomUniformLike") X("RandomNormal") X("RandomNormalLike") X("Bernoulli")

/* An mp_random_source becomes the call's state. MP_UNSUPPORTED: a type of less than a byte, FLOAT16, or probabilities that are
 * neither FLOAT nor BFLOAT16; MP_NOMEM. */
mp_status mp_random_source_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_random_source_run(const mp_call *call, const mp_operands *x, const uint64_t *seed, const uint32_t *step,
                               mp_body_loop loop, mp_error *err);

MP_INLINE void mp_random_source_item(const mp_random_source *s, int64_t k)
{
    const uint64_t e = (uint64_t)k;
    double value;
    if (s->distribution == MP_NORMAL) { /* Box, Muller 1958 */
        double u = 1 - (double)mp_random_uniform(*s->seed, *s->step, s->op, 2 * e),
               v = (double)mp_random_uniform(*s->seed, *s->step, s->op, 2 * e + 1);
        value = s->a + s->b * sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    } else {
        double u = (double)mp_random_uniform(*s->seed, *s->step, s->op, e);
        value = s->distribution == MP_UNIFORM ? s->a + (s->b - s->a) * u
                                              : (double)(u < mp_load_real(s->probabilities.data, s->probabilities.dtype, k));
    }
    mp_store_real(s->out.data, s->out.dtype, k, value);
}
