/* channels.h - own kernels over the channels (second dimension) of a tensor: adding a value per channel, summing each channel,
 * normalizing by batch statistics. Enqueued on mp_cuda_stream(). Private to executor/cuda/.
 *
 * Tensors are dense, with channels innermost or with the dimensions in their order, and all tensors of one call are laid out
 * alike; per-channel values are dense. How a sum is cut depends on the tensor's sizes and layout alone.
 */
#ifndef EXECUTOR_CUDA_CHANNELS_H
#define EXECUTOR_CUDA_CHANNELS_H

#include "executor/array.h"

/* Whether the kernels take this layout. */
bool mp_channels_fit(const mp_array *a);

/* y += value[channel] */
mp_status mp_channels_add(const mp_array *y, const mp_array *value, mp_error *err);

/* Bytes that reducing n values per element over the channels of `a` takes in the workspace. */
int64_t mp_channels_workspace_bytes(const mp_array *a, int n);
/* sum[channel] = the sum of a over everything else, added to what is there if `add`. */
mp_status mp_channels_sum(const mp_array *a, const mp_array *sum, bool add, void *workspace, mp_error *err);

/* One batch normalization. `value`: its input or, from_output, its output. */
typedef struct mp_channels_norm {
    mp_array value, y;                      /* forward: the input, the output */
    mp_array dy, dx;                        /* backward: dx UNDEFINED if not wanted */
    mp_array scale, shift;                  /* shift: forward, and backward from the output */
    mp_array d_scale, d_shift;              /* UNDEFINED if not wanted */
    mp_array running[2], moved[2];          /* running mean and variance; where they go when they move, UNDEFINED: nowhere */
    float *mean, *rstd;                     /* per channel: written by measure and borrow, read by the others */
    double epsilon, momentum;               /* moved = momentum running + (1 - momentum) batch */
    bool from_output, add_scale, add_shift; /* add: to what is there */
    void *workspace;                        /* mp_channels_workspace_bytes(value, 2) */
} mp_channels_norm;

/* The batch's statistics. */
mp_status mp_channels_norm_measure(const mp_channels_norm *c, mp_error *err);
/* The running ones instead. */
mp_status mp_channels_norm_borrow(const mp_channels_norm *c, mp_error *err);
/* Moves running[k] to moved[k], which may be running[k] itself; the variance is the population's. */
mp_status mp_channels_norm_move(const mp_channels_norm *c, mp_error *err);
mp_status mp_channels_norm_apply(const mp_channels_norm *c, mp_error *err);
mp_status mp_channels_norm_backward(const mp_channels_norm *c, mp_error *err);

#endif
