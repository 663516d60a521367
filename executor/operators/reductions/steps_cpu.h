/* steps_cpu.h - how a reduction takes in floats, a row or some columns at a time. Private to executor/cpu/. */
#pragma once

#include "executor/operators/reductions/reduced.h"

/* Rows of the table of steps: over n contiguous elements into one value, and over `rows` rows of n columns, `stride` apart,
 * into a value per column (acc[k] and shift[k] are column k's). */
typedef struct mp_step_rows {
    double start; /* of what has taken in nothing */
    double (*run)(const float *x, int64_t n, double acc, double shift);
    void (*columns)(const float *x, int64_t rows, int64_t stride, int64_t n, double *acc, const double *shift);
    double (*join)(double a, double b); /* what two parts give together */
} mp_step_rows;
extern const mp_step_rows mp_reduction_steps[MP_N_STEPS];
