/* channel_norm_cuda.h - own kernels for batch normalization. Enqueued on mp_cuda_stream().
 *
 * docs/internals/gpu.md says why they are used instead of cuDNN's. Tensors are dense, with channels innermost or row-major, and
 * all tensors of a call have the same layout. How a sum is cut depends on sizes, type and layout alone. If channels are
 * innermost and a multiple of what 16 bytes hold, threads keep their channels (channel_vectors.cuh); otherwise a kernel for
 * any layout runs. */
#pragma once

#include "executor/kernel/array.h"

/* What is fused behind the normalization. Backward, dy counts only where the output is above zero, which is computed again
 * from the input; after an addition it is read from the bits that forward saved. */
typedef enum mp_channel_end { MP_CHANNEL_PLAIN, MP_CHANNEL_RELU, MP_CHANNEL_ADDED_RELU } mp_channel_end;

typedef struct mp_channel_norm {
    mp_channel_end end;                 /* only PLAIN with from_output */
    int64_t channels, inner, positions; /* inner: adjacent elements of one channel; positions: elements of a channel */
    mp_array value;                     /* the input or, with from_output, the output */
    mp_array y, dy, dx;                 /* y: forward only; dx: data NULL if not wanted */
    mp_array z, dz;                     /* with ADDED_RELU: the tensor added, and its gradient, data NULL if not wanted */
    mp_array scale, shift;              /* shift: for forward, and for backward with from_output or RELU */
    mp_array d_scale, d_shift;          /* UNDEFINED if not wanted */
    mp_array running[2],
        moved[2][2];    /* running mean and variance; moved: where the updated ones are written, data NULL: nowhere */
    float *mean, *rstd; /* per channel */
    uint8_t *positive;  /* with ADDED_RELU: bit e of byte k is 1 if element 8 k + e of the output, in memory order, is above
                           zero; forward NULL: not saved */
    double epsilon, momentum;
    bool from_output, add_scale, add_shift, add_dz; /* add_*: accumulate into the gradient */
    void *workspace;                                /* mp_channel_norm_workspace_bytes, aligned to 16 */
} mp_channel_norm;

/* Reads the sizes of a tensor (N, C, ...); false: the kernels do not support its layout. */
bool mp_channel_norm_read(const mp_array *a, mp_channel_norm *c);
int64_t mp_channel_norm_workspace_bytes(const mp_channel_norm *c);

/* Computes mean and rstd of the batch. Updates running statistics where c->moved has memory (which may be their own):
 * momentum running + (1 - momentum) batch, with the population's variance. */
void mp_channel_norm_measure(const mp_channel_norm *c);
void mp_channel_norm_borrow(const mp_channel_norm *c); /* sets mean and rstd from the running statistics */
void mp_channel_norm_apply(const mp_channel_norm *c);
void mp_channel_norm_backward(const mp_channel_norm *c);
