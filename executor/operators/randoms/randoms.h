/* randoms.h - Dropout, tensors of random numbers, and tensors filled by a formula (constants, ranges, window functions), for
 * every backend: contains the parameters, which are read when a call is prepared, and the formula for one element.
 *
 * Random numbers come from philox.h, with the key (seed, step, operator, element). Elements are counted in memory order.
 * Layouts are fixed, so forward, backward and every recomputation draw the same numbers. */
#pragma once

#include "executor/kernel/body.h"
#include "executor/kernel/philox.h"

/* The description of a Dropout: sets an element to 0 if its uniform random number is below the ratio. */
typedef struct mp_dropout {
    float ratio;
    bool drops; /* true: elements are dropped; false: all elements are copied */
    int64_t n;  /* number of elements */
    mp_dealt dealt;
} mp_dropout;

/* Makes an mp_dropout the call's state. MP_UNSUPPORTED: the type is neither FLOAT nor BFLOAT16, the operands have different
 * layouts, or the ratio is only known at run time; MP_NOMEM. */
mp_status mp_dropout_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* Returns the number by which dropout multiplies the elements that it keeps. */
MP_INLINE float mp_dropout_factor(float ratio)
{
    return ratio < 1 ? 1 / (1 - ratio) : 0;
}

typedef enum mp_distribution { MP_UNIFORM, MP_NORMAL, MP_BERNOULLI } mp_distribution;

typedef struct mp_random_source {
    mp_distribution distribution;
    double a, b; /* parameters of the distribution. UNIFORM: low and high; NORMAL: mean and standard deviation */
    uint32_t op;
    const uint64_t *seed; /* seed and step of the current run, in the backend's memory */
    const uint32_t *step;
    mp_array probabilities, out; /* probabilities: for BERNOULLI only, the probability that an element is 1; out: the output */
} mp_random_source;

/* The operators of random numbers that mp_random_source_prepare supports. */
#define MP_RANDOM_SOURCES(X) X("RandomUniform") X("RandomUniformLike") X("RandomNormal") X("RandomNormalLike") X("Bernoulli")

/* Makes an mp_random_source the call's state. MP_UNSUPPORTED: a type of less than a byte, FLOAT16, or probabilities that are
 * neither FLOAT nor BFLOAT16; MP_NOMEM. */
mp_status mp_random_source_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_random_source_run(const mp_call *call, const mp_operands *x, const uint64_t *seed, const uint32_t *step,
                               mp_body_loop loop, mp_error *err);

MP_INLINE void mp_random_source_item(const mp_random_source *s, int64_t k)
{
    const uint64_t e = (uint64_t)k;
    double value;
    if (s->distribution == MP_NORMAL) { /* computes a normally distributed number from two uniform ones (Box, Muller 1958) */
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

/* ---- tensors filled by a formula: constants, ranges, window functions. */

enum { MP_WINDOW_TERMS = 3 };

/* The formula that gives element k of the output. */
typedef enum mp_source_form {
    MP_SOURCE_CONSTANT, /* the number `real` or `whole` for all elements: ConstantOfShape, or a Constant with one element */
    MP_SOURCE_SIZE,     /* Size: a single number, the number of elements of the input */
    MP_SOURCE_VALUES,   /* Constant: element k is read from a list in host memory */
    MP_SOURCE_SHAPE,    /* Shape: dims[k] */
    MP_SOURCE_RANGE,    /* Range: element k is first + k * step */
    MP_SOURCE_EYE,      /* EyeLike: elements on a diagonal of a matrix are 1, all others 0 */
    MP_SOURCE_WINDOW    /* a window function (Hann, Hamming, Blackman): a sum of cosines */
} mp_source_form;

typedef struct mp_source {
    mp_source_form form;
    mp_array out;
    bool is_real; /* true: values are in real or reals; false: in whole or wholes */
    double real;
    int64_t whole;
    const double *reals; /* for VALUES: the list of elements, as reals or as wholes (integers) */
    const int64_t *wholes;
    int64_t dims[MP_ARRAY_RANK];
    mp_array first, step; /* for RANGE: the first element and the step, arrays of one element each */
    int64_t columns, diagonal;
    double period, window[MP_WINDOW_TERMS]; /* coefficients of cos(0), cos(2 pi k / period) and cos(4 pi k / period) in a window
                                               function */
} mp_source;

/* The operators that fill their output by a formula (mp_source_form). mp_source_prepare supports them. */
#define MP_SOURCES(X) \
    X("Constant")     \
    X("ConstantOfShape") X("Shape") X("Size") X("Range") X("EyeLike") X("HannWindow") X("HammingWindow") X("BlackmanWindow")

/* Prepares a call whose state is an mp_source. MP_UNSUPPORTED: the type or layout of the output is not supported, or a constant
 * has another size than the output; MP_NOMEM. */
mp_status mp_source_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Returns the call's mp_source, completed by the addresses of the arrays in the current run. */
mp_source mp_source_of(const mp_call *call, const mp_operands *x);

MP_INLINE void mp_source_item(const mp_source *s, int64_t k)
{
    double real = s->real;
    int64_t whole = s->whole;
    if (s->form == MP_SOURCE_VALUES && s->is_real) real = s->reals[k];
    if (s->form == MP_SOURCE_VALUES && !s->is_real) whole = s->wholes[k];
    if (s->form == MP_SOURCE_SHAPE) whole = s->dims[k];
    if (s->form == MP_SOURCE_EYE) whole = k % s->columns - k / s->columns == s->diagonal;
    if (s->form == MP_SOURCE_RANGE && s->is_real)
        real = mp_load_real(s->first.data, s->first.dtype, 0) + (double)k * mp_load_real(s->step.data, s->step.dtype, 0);
    if (s->form == MP_SOURCE_RANGE && !s->is_real)
        whole = mp_load_whole(s->first.data, s->first.dtype, 0) + k * mp_load_whole(s->step.data, s->step.dtype, 0);
    if (s->form == MP_SOURCE_WINDOW) {
        for (int t = 0; t < MP_WINDOW_TERMS; t++)
            real += s->window[t] * (s->period > 0 ? cos(2 * 3.14159265358979323846 * t * (double)k / s->period) : 1);
        whole = (int64_t)real;
    }
    if (s->is_real)
        mp_store_real(s->out.data, s->out.dtype, k, real);
    else
        mp_store_whole(s->out.data, s->out.dtype, k, whole);
}
