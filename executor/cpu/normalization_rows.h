/* normalization_rows.h - normalizing over some dimensions: layer, root-mean-square, group, instance and batch normalization are
 * one loop nest. Private to executor/cpu/.
 *
 * A row is what shares statistics: all elements that differ in the inner dimensions only. xhat = (x - mean) rstd, y = scale
 * xhat + shift; backward: dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy scale (root-mean-square: without the first
 * mean).
 */
#ifndef EXECUTOR_CPU_NORMALIZATION_ROWS_H
#define EXECUTOR_CPU_NORMALIZATION_ROWS_H

#include "executor/cpu/parallel.h"

enum { MP_ROWS_DIMS = MP_ARRAY_RANK + 1 };

typedef struct mp_rows {
    int n_outer, n_inner;
    int64_t outer[MP_ROWS_DIMS], inner[MP_ROWS_DIMS];
    int64_t outer_at[MP_ROWS_DIMS], inner_at[MP_ROWS_DIMS];               /* strides of x, y, dx, dy: one layout */
    int64_t outer_parameter[MP_ROWS_DIMS], inner_parameter[MP_ROWS_DIMS]; /* of scale and shift */
    int64_t n_rows, length, run, n_runs;                                  /* run: of the innermost inner dimension */
    int64_t n_parameters, n_stretches;
    bool centered; /* the mean is subtracted */
    double epsilon;
} mp_rows;

/* What a pass works on; NULL where it is not there. */
typedef struct mp_rows_data {
    mp_dtype dtype, parameter_dtype;
    const void *x, *y, *dy, *scale, *shift;
    void *out;          /* y forward, dx backward */
    float *mean, *rstd; /* per row: written forward, read backward; mean NULL: not kept, or none */
    void *d_scale, *d_shift;
    bool add_scale, add_shift;
    double *partial; /* mp_rows_workspace_bytes */
} mp_rows_data;

/* Describes rows of x: dimension d is inner if bit d of `inner` is set; parameter_stride[d]: how far scale and shift move along
 * it, n_parameters of them (0: there are none). */
mp_rows mp_rows_of(const mp_array *x, uint32_t inner, const int64_t *parameter_stride, int64_t n_parameters, bool centered,
                   double epsilon);
int64_t mp_rows_workspace_bytes(const mp_rows *rows); /* of the backward pass */

/* Fills data->mean and data->rstd only. */
void mp_rows_measure(const mp_rows *rows, const mp_rows_data *data);
void mp_rows_forward(const mp_rows *rows, const mp_rows_data *data);
/* Backward; with data->y in place of data->x it starts from the output. */
void mp_rows_backward(const mp_rows *rows, const mp_rows_data *data);
/* y = scale (x - mean) rstd + shift with statistics that are given (evaluation). */
void mp_rows_apply(const mp_rows *rows, const mp_rows_data *data);

#endif
