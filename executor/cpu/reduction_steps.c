/* reduction_steps.c - the loops of reductions: how elements are taken in, along a row or down the columns. */
#include <math.h>

#include "executor/cpu/reduction.h"
#include "executor/vector_math.h"

/* NAME_run and NAME_columns from `take`, an expression of a (what was taken in so far), v (the element) and s (the shift), and
 * `join` of a and b. A row has sixteen values side by side, so that the operations can overlap. */
#define STEP(name, start, take, joined)                                                                        \
    static inline double name##_join(double a, double b)                                                       \
    {                                                                                                          \
        return joined;                                                                                         \
    }                                                                                                          \
    MP_VECTOR static double name##_run(const float *x, int64_t n, double acc, double s)                        \
    {                                                                                                          \
        enum { LANES = 16 };                                                                                   \
        double lanes[LANES];                                                                                   \
        int64_t k = 0;                                                                                         \
        (void)s;                                                                                               \
        for (int l = 0; l < LANES; l++) lanes[l] = start;                                                      \
        for (; k + LANES <= n; k += LANES)                                                                     \
            for (int l = 0; l < LANES; l++) {                                                                  \
                const double a = lanes[l], v = (double)x[k + l];                                               \
                lanes[l] = take;                                                                               \
            }                                                                                                  \
        for (int l = 0; k + l < n; l++) {                                                                      \
            const double a = lanes[l], v = (double)x[k + l];                                                   \
            lanes[l] = take;                                                                                   \
        }                                                                                                      \
        for (int l = 0; l < LANES && l < n; l++) acc = name##_join(acc, lanes[l]);                             \
        return acc;                                                                                            \
    }                                                                                                          \
    MP_VECTOR static void name##_columns(const float *x, int64_t rows, int64_t stride, int64_t n, double *acc, \
                                         const double *shift)                                                  \
    {                                                                                                          \
        for (int64_t r = 0; r < rows; r++, x += stride) MP_INDEPENDENT for (int64_t l = 0; l < n; l++)         \
            {                                                                                                  \
                const double a = acc[l], v = (double)x[l], s = shift[l];                                       \
                (void)s;                                                                                       \
                acc[l] = take;                                                                                 \
            }                                                                                                  \
    }

STEP(sum, 0.0, a + v, a + b)
STEP(squares, 0.0, a + v * v, a + b)
STEP(absolutes, 0.0, a + fabs(v), a + b)
STEP(product, 1.0, a *v, a *b)
STEP(max, -INFINITY, v > a || v != v ? v : a, b > a || b != b ? b : a)
STEP(min, INFINITY, v < a || v != v ? v : a, b < a || b != b ? b : a)
STEP(exps, 0.0, a + (double)mp_exp((float)(v - s)), a + b)
STEP(equals, 0.0, a + (v == s ? 1.0 : 0.0), a + b)
STEP(nonzeros, 1.0, v != 0 ? a * v : a, a *b)
STEP(zeros, 0.0, a + (v == 0 ? 1.0 : 0.0), a + b)

#define ROW(name, start)                               \
    {                                                  \
        start, name##_run, name##_columns, name##_join \
    }
const mp_step_rows mp_reduction_steps[MP_N_STEPS] = {
    [MP_STEP_SUM] = ROW(sum, 0),         [MP_STEP_SQUARES] = ROW(squares, 0), [MP_STEP_ABSOLUTES] = ROW(absolutes, 0),
    [MP_STEP_PRODUCT] = ROW(product, 1), [MP_STEP_MAX] = ROW(max, -INFINITY), [MP_STEP_MIN] = ROW(min, INFINITY),
    [MP_STEP_EXPS] = ROW(exps, 0),       [MP_STEP_EQUALS] = ROW(equals, 0),   [MP_STEP_NONZEROS] = ROW(nonzeros, 1),
    [MP_STEP_ZEROS] = ROW(zeros, 0),
};
