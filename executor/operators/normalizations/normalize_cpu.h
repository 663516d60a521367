/* normalize_cpu.h - runs the loop nest of normalization.h on the CPU: layer, root-mean-square, group, instance, mean-variance
 * and batch normalization. */
#pragma once

#include "executor/cpu/base/parallel.h"
#include "executor/operators/normalizations/normalization.h"

/* The operands of one call, forward or backward; NULL: the operand is absent. */
typedef struct mp_normalize_data {
    mp_dtype dtype, parameter_dtype;
    const void *x, *y, *dy, *scale, *shift;
    void *out; /* the result: y in forward, dx in backward */
    /* statistics of each row, which forward writes and backward reads. NULL: not saved; mean is also NULL if no mean is
     * subtracted */
    float *mean, *rstd;
    void *d_scale, *d_shift;
    bool add_scale, add_shift;
    double *partial; /* workspace of backward, with mp_normalize_workspace_bytes bytes */
} mp_normalize_data;

int64_t mp_normalize_workspace_bytes(const mp_normalization *rows); /* workspace bytes of backward */

/* Computes only the statistics of the rows: data->mean and data->rstd. */
void mp_normalize_measure(const mp_normalization *rows, const mp_normalize_data *data);
void mp_normalize_forward(const mp_normalization *rows, const mp_normalize_data *data);
/* Computes the gradients from the input data->x, or, if data->x is NULL, from the output data->y. */
void mp_normalize_backward(const mp_normalization *rows, const mp_normalize_data *data);
/* Computes y = scale (x - mean) rstd + shift with given mean and rstd, for evaluation. */
void mp_normalize_apply(const mp_normalization *rows, const mp_normalize_data *data);
