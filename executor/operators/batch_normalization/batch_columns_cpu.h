/* batch_columns_cpu.h - batch normalization where channels lie innermost: sums down the columns, then one pass over all rows.
 */
#pragma once

#include "executor/cpu/base/parallel.h"

/* x: (rows, channels) in memory, channels contiguous. */
typedef struct mp_batch_columns {
    int64_t rows, channels, rows_per_stretch, n_stretches;
} mp_batch_columns;

/* False: x does not lie so. */
bool mp_batch_columns_of(const mp_array *x, mp_batch_columns *out);
int64_t mp_batch_columns_workspace_bytes(const mp_batch_columns *columns);

/* mean and 1 / sqrt(variance + epsilon) of every channel. */
void mp_batch_columns_measure(const mp_batch_columns *columns, const mp_array *x, double epsilon, float *mean, float *rstd,
                              void *workspace);
/* y = scale (x - mean) rstd + shift; scale and shift of the type of x or float. */
void mp_batch_columns_apply(const mp_batch_columns *columns, const mp_array *x, const mp_array *scale, const mp_array *shift,
                            const float *mean, const float *rstd, const mp_array *y, void *workspace);
/* dx (NULL: not wanted), d_scale and d_shift (NULL likewise, else `channels` floats). `v` is x, or y with from_output. */
void mp_batch_columns_backward(const mp_batch_columns *columns, const mp_array *v, bool from_output, const mp_array *dy,
                               const mp_array *scale, const mp_array *shift, const float *mean, const float *rstd,
                               const mp_array *dx, float *d_scale, float *d_shift, void *workspace);
