/* channel_norm_cuda.h - memplan's own kernels for batch normalization. Enqueued on mp_cuda_stream().
 *
 * docs/internals/gpu.md gives the reasons for using them instead of cuDNN's. Tensors are dense, with channels innermost or
 * row-major, and all tensors of a call have the same layout. The split of a sum depends only on sizes, type and layout. If
 * channels are innermost and their number is a multiple of the elements in 16 bytes, each thread keeps its channels
 * (channel_vectors.cuh); otherwise a kernel for any layout runs. */
#pragma once

#include "executor/kernel/array.h"

/* Operators fused after the normalization. In backward, dy counts only if the output is above zero. With RELU the output is
 * recomputed from the input; with ADDED_RELU its sign is read from the bits that forward saved. */
typedef enum mp_channel_end { MP_CHANNEL_PLAIN, MP_CHANNEL_RELU, MP_CHANNEL_ADDED_RELU } mp_channel_end;

typedef struct mp_channel_norm {
    mp_channel_end end;                 /* from_output requires PLAIN */
    int64_t channels, inner, positions; /* inner: adjacent elements of one channel; positions: elements of a channel */
    mp_array value;                     /* the input or, with from_output, the output */
    mp_array y, dy, dx;                 /* y: forward only; dx: data NULL if not requested */
    mp_array z, dz;                     /* with ADDED_RELU: the added tensor, and its gradient, data NULL if not requested */
    mp_array scale, shift;              /* shift: needed in forward, and in backward with from_output or RELU */
    mp_array d_scale, d_shift;          /* UNDEFINED if not requested */
    mp_array running[2], moved[2][2]; /* running mean and variance; moved: destinations of the updated ones, data NULL: none */
    float *mean, *rstd;               /* one value per channel */
    uint8_t *positive; /* with ADDED_RELU: bit e of byte k is 1 if element 8 k + e of the output, in memory order, is above
                          zero; forward NULL: not saved */
    double epsilon, momentum;
    bool from_output, add_scale, add_shift, add_dz; /* add_*: accumulate into the gradient */
    void *workspace;                                /* mp_channel_norm_workspace_bytes bytes, aligned to 16 */
} mp_channel_norm;

/* Reads the sizes of a tensor (N, C, ...); false: the kernels do not support its layout. */
bool mp_channel_norm_read(const mp_array *a, mp_channel_norm *c);
int64_t mp_channel_norm_workspace_bytes(const mp_channel_norm *c);

/* Computes mean and rstd of the batch. Writes updated running statistics to c->moved, which may be the running statistics
 * themselves: momentum running + (1 - momentum) batch, with the population variance. */
void mp_channel_norm_measure(const mp_channel_norm *c);
void mp_channel_norm_borrow(const mp_channel_norm *c); /* sets mean and rstd from the running statistics */
void mp_channel_norm_apply(const mp_channel_norm *c);
void mp_channel_norm_backward(const mp_channel_norm *c);
