/* normalization.h - layer, root-mean-square, group, instance, mean-variance and batch normalization as one loop nest, for every
 * backend: which dimensions form a row, and where scale and shift belong to.
 *
 * A row is what shares statistics: all elements that differ in the inner dimensions only. xhat = (x - mean) rstd, y = scale
 * xhat + shift; backward: dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy scale (root-mean-square: without the first
 * mean).
 */
#pragma once

#include "executor/kernel/kernel.h"

enum { MP_ROWS_DIMS = MP_ARRAY_RANK + 1 };

/* X(kind, domain, how rows are cut, centered, epsilon where no attribute gives it): the operators that normalization.c reads.
 */
#define MP_NORMALIZATIONS(X)                                                    \
    X("LayerNormalization", "", FROM_AXIS, true, 1e-5f)                         \
    X("LayerNormalization", "memplan", FROM_AXIS, true, 1e-5f)                  \
    X("RMSNormalization", "", FROM_AXIS, false, 1e-5f)                          \
    X("RMSNormalization", "memplan", FROM_AXIS, false, 1e-5f)                   \
    X("SimplifiedLayerNormalization", "", FROM_AXIS, false, 1e-5f)              \
    X("SimplifiedLayerNormalization", "com.microsoft", FROM_AXIS, false, 1e-5f) \
    X("GroupNormalization", "", GROUPS, true, 1e-5f)                            \
    X("InstanceNormalization", "", CHANNELS, true, 1e-5f)                       \
    X("MeanVarianceNormalization", "", AXES, true, 1e-18)

typedef struct mp_normalization {
    int n_outer, n_inner;
    int64_t outer[MP_ROWS_DIMS], inner[MP_ROWS_DIMS];
    int64_t outer_at[MP_ROWS_DIMS], inner_at[MP_ROWS_DIMS];               /* strides of x, y, dx, dy: one layout */
    int64_t outer_parameter[MP_ROWS_DIMS], inner_parameter[MP_ROWS_DIMS]; /* of scale and shift */
    int64_t n_rows, length, run, n_runs;                                  /* run: of the innermost inner dimension */
    int64_t n_parameters;
    bool centered; /* the mean is subtracted */
    double epsilon;
} mp_normalization;

/* Describes rows of x: dimension d is inner if bit d of `inner` is set; parameter_stride[d]: how far scale and shift move along
 * it, n_parameters of them (0: there are none). */
mp_normalization mp_normalization_of(const mp_array *x, uint32_t inner, const int64_t *parameter_stride, int64_t n_parameters,
                                     bool centered, double epsilon);
/* X and Y are of one type, scale and shift of one, running mean and variance of one, each FLOAT or BFLOAT16, and what is added
 * is like X; else MP_UNSUPPORTED. */
mp_status mp_normalization_types(const mp_operands *x, mp_error *err);
/* The rows of a normalization without running statistics. MP_UNSUPPORTED: other types
 * than those, or a layout of the scale other than row-major. */
mp_status mp_normalization_read(const mp_operands *x, mp_normalization *out, mp_error *err);
