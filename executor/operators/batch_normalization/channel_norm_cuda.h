/* channel_norm_cuda.h - memplan's own GPU kernels for batch normalization. All functions only enqueue, on mp_cuda_stream().
 *
 * docs/internals/gpu.md gives the reasons why memplan does not use cuDNN for batch normalization. Tensors are dense, with
 * channels innermost or row-major, and all tensors of a call have the same layout. The split of a sum depends only on sizes,
 * type and layout. If channels are innermost and their number is a multiple of the elements in 16 bytes, a thread processes a
 * fixed set of channels (channel_vectors.cuh). Otherwise a kernel for any layout runs. */
#pragma once

#include "executor/kernel/array.h"

/* Operators fused after the normalization. With both kinds of ReLU, backward sets dy to zero where the output is not above
 * zero. RELU recomputes the output from the input; ADDED_RELU reads the sign bits that forward saved. */
typedef enum mp_channel_end { MP_CHANNEL_PLAIN, MP_CHANNEL_RELU, MP_CHANNEL_ADDED_RELU } mp_channel_end;

typedef struct mp_channel_norm {
    mp_channel_end end; /* operators fused after the normalization; must be PLAIN if from_output is set */
    int64_t channels, inner,
        positions;         /* inner: number of adjacent elements of one channel; positions: number of elements per channel */
    mp_array value;        /* backward computes from this tensor: the input, or, with from_output, the output */
    mp_array y, dy, dx;    /* y: output of forward; dy: its gradient; dx: gradient of the input, data NULL if not requested */
    mp_array z, dz;        /* with ADDED_RELU: the added tensor, and its gradient, data NULL if not requested */
    mp_array scale, shift; /* shift: needed in forward, and in backward with from_output or RELU */
    mp_array d_scale, d_shift;        /* gradients of scale and shift; dtype UNDEFINED: not requested */
    mp_array running[2], moved[2][2]; /* running: running mean and variance; moved: up to two destinations for each updated
                                         statistic, data NULL: none */
    float *mean, *rstd;               /* mean and 1 / sqrt(variance + epsilon), one value per channel */
    uint8_t *positive; /* with ADDED_RELU, the sign bits: bit e of byte k is 1 if element 8 k + e of the output, in memory
                          order, is above zero. NULL in forward: not saved */
    double epsilon, momentum;
    bool from_output, add_scale, add_shift,
        /* from_output: backward computes from the output y; add_*: the gradient is accumulated instead of overwritten */
        add_dz;
    void *workspace; /* mp_channel_norm_workspace_bytes bytes, aligned to 16 */
} mp_channel_norm;

/* Reads the sizes of a tensor (N, C, ...); false: the kernels do not support its layout. */
bool mp_channel_norm_read(const mp_array *a, mp_channel_norm *c);
int64_t mp_channel_norm_workspace_bytes(const mp_channel_norm *c);

/* Computes mean and rstd of the batch. Writes the updated running statistics to c->moved, which may be the same memory as
 * c->running. New value: momentum * running + (1 - momentum) * batch, with the population variance. */
void mp_channel_norm_measure(const mp_channel_norm *c);
/* sets c->mean and c->rstd from the running statistics, for evaluation */
void mp_channel_norm_borrow(const mp_channel_norm *c);
void mp_channel_norm_apply(const mp_channel_norm *c);
void mp_channel_norm_backward(const mp_channel_norm *c);
