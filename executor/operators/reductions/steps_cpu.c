/* steps_cpu.c - the loops of reductions: how elements are taken in, along a row or down the columns. */
#include "executor/operators/reductions/steps_cpu.h"

#include <math.h>

#include "executor/cpu/base/parallel.h"

/* NAME_run and NAME_columns from `take`, an expression of a (what was taken in so far), v (the element) and s (the shift), and
 * `join` of a and b. A row has sixteen values side by side, so that the operations can overlap. */
#define STEP(NAME, name, start, take, joined)                                                                  \
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

#define END(name, f)
#define SLOPE(name, f)
#define REDUCTION(kind, step, end, shifted, is_plain, slope, reads)
#include "executor/operators/reductions/reductions.def"

#define STEP(NAME, name, start, take, joined) [MP_STEP_##NAME] = {start, name##_run, name##_columns, name##_join},
#define END(name, f)
#define SLOPE(name, f)
#define REDUCTION(kind, step, end, shifted, is_plain, slope, reads)
const mp_step_rows mp_reduction_steps[MP_N_STEPS] = {
#include "executor/operators/reductions/reductions.def"
};
