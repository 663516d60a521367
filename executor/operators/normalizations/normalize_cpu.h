/* normalize_cpu.h - normalizing over some dimensions: layer, root-mean-square, group, instance and batch normalization are
 * one loop nest, that of normalization.h.
 */
#pragma once

#include "executor/cpu/base/parallel.h"
#include "executor/operators/normalizations/normalization.h"

/* What a pass works on; NULL where it is not there. */
typedef struct mp_normalize_data {
    mp_dtype dtype, parameter_dtype;
    const void *x, *y, *dy, *scale, *shift;
    void *out;          /* y forward, dx backward */
    float *mean, *rstd; /* per row: written forward, read backward; mean NULL: not kept, or none */
    void *d_scale, *d_shift;
    bool add_scale, add_shift;
    double *partial; /* mp_normalize_workspace_bytes */
} mp_normalize_data;

int64_t mp_normalize_workspace_bytes(const mp_normalization *rows); /* of the backward pass */

/* Fills data->mean and data->rstd only. */
void mp_normalize_measure(const mp_normalization *rows, const mp_normalize_data *data);
void mp_normalize_forward(const mp_normalization *rows, const mp_normalize_data *data);
/* Backward; with data->y in place of data->x it starts from the output. */
void mp_normalize_backward(const mp_normalization *rows, const mp_normalize_data *data);
/* y = scale (x - mean) rstd + shift with statistics that are given (evaluation). */
void mp_normalize_apply(const mp_normalization *rows, const mp_normalize_data *data);
