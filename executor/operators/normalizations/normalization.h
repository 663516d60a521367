/* normalization.h - layer, root-mean-square, group, instance, mean-variance and batch normalization as one loop nest, for
 * every backend. The loop nest (mp_normalization) contains the dimensions that form a row, and the strides of scale and shift.
 *
 * The elements of a row share statistics; a row extends over the inner dimensions. xhat = (x - mean) rstd, y = scale xhat +
 * shift; backward: dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy scale. In root-mean-square normalization, mean and
 * mean(g) are 0. */
#pragma once

#include "executor/kernel/kernel.h"

enum { MP_ROWS_DIMS = MP_ARRAY_RANK + 1 };

/* X(kind, domain, kind of rows, centered, default of epsilon) for each operator that mp_normalization_read supports. */
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
    int64_t outer_at[MP_ROWS_DIMS], inner_at[MP_ROWS_DIMS]; /* strides of x, y, dx and dy, which have one layout */
    int64_t outer_parameter[MP_ROWS_DIMS], inner_parameter[MP_ROWS_DIMS]; /* strides of scale and shift */
    int64_t n_rows, length, run, n_runs; /* run: size of the innermost dimension of a row; a row has n_runs runs of this size */
    int64_t n_parameters;
    bool centered; /* true: the mean is subtracted */
    double epsilon;
} mp_normalization;

/* Describes the rows of x: dimension d is inner if bit d of `inner` is set. parameter_stride[d] is the stride of scale and
 * shift along d. n_parameters is the number of elements of the scale; 0: scale and shift are absent. */
mp_normalization mp_normalization_of(const mp_array *x, uint32_t inner, const int64_t *parameter_stride, int64_t n_parameters,
                                     bool centered, double epsilon);
/* Checks the operand types of a normalization. MP_UNSUPPORTED: a type is neither FLOAT nor BFLOAT16, or types differ within
 * one of these groups: X, Y and an added operand; scale and shift; running mean and variance. */
mp_status mp_normalization_types(const mp_operands *x, mp_error *err);
/* Describes the rows of a normalization without running statistics. MP_UNSUPPORTED: as mp_normalization_types, or the scale is
 * not row-major, the shift has another layout, or x has too many dimensions. */
mp_status mp_normalization_read(const mp_operands *x, mp_normalization *out, mp_error *err);
