/* channel_norm_cuda.h - own kernels for batch normalization. Enqueued on mp_cuda_stream().
 *
 * Why not cuDNN's: docs/gpu.md. Tensors are dense, with channels innermost or dimensions in their order, and those of one call
 * are laid out alike. How a sum is cut depends on sizes, type and layout alone. Where channels lie innermost and are a multiple
 * of what 16 bytes hold, threads keep their channels (channel_vectors.cuh); elsewhere there is a kernel for any layout.
 */
#pragma once

#include "executor/kernel/array.h"

/* What follows the normalization within the same pass. Backward, dy counts where the output is above zero: that is computed
 * again from the input or, where something was added, is what forward left as bits. */
typedef enum mp_channel_end { MP_CHANNEL_PLAIN, MP_CHANNEL_RELU, MP_CHANNEL_ADDED_RELU } mp_channel_end;

typedef struct mp_channel_norm {
    mp_channel_end end;                 /* not with from_output */
    int64_t channels, inner, positions; /* inner: elements of a channel side by side; positions: elements of a channel */
    mp_array value;                     /* its input or, from_output, its output */
    mp_array y, dy, dx;                 /* y: forward; dx: data NULL if not wanted */
    mp_array z, dz;                     /* ADDED_RELU: what is added, and its gradient, data NULL if not wanted */
    mp_array scale, shift;              /* shift: forward, and backward from the output or after RELU */
    mp_array d_scale, d_shift;          /* UNDEFINED if not wanted */
    mp_array running[2], moved[2][2];   /* running mean and variance; where they go when they move, data NULL: nowhere */
    float *mean, *rstd;                 /* per channel */
    uint8_t *positive;                  /* ADDED_RELU: bit e of byte k: element 8 k + e of the output, as it lies in memory, is
                                         * above zero; NULL forward: nobody asks */
    double epsilon, momentum;
    bool from_output, add_scale, add_shift, add_dz; /* add: to what is there */
    void *workspace;                                /* mp_channel_norm_workspace_bytes, aligned to 16 */
} mp_channel_norm;

/* Reads the sizes of a tensor (N, C, ...); false: a layout that the kernels do not take. */
bool mp_channel_norm_read(const mp_array *a, mp_channel_norm *c);
int64_t mp_channel_norm_workspace_bytes(const mp_channel_norm *c);

/* mean and rstd of the batch. Where running statistics go somewhere (which may be where they are) they move there: momentum
 * running + (1 - momentum) batch, with the population's variance. */
void mp_channel_norm_measure(const mp_channel_norm *c);
void mp_channel_norm_borrow(const mp_channel_norm *c); /* mean and rstd from the running statistics */
void mp_channel_norm_apply(const mp_channel_norm *c);
void mp_channel_norm_backward(const mp_channel_norm *c);
