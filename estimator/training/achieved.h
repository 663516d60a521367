/* achieved.h - seconds of single kernels at rates that training runs reach, instead of data-sheet peaks. The constants are in
 * rates.def, one row per family of kernels. docs/internals/rates.md explains the model and its accuracy. Private to the
 * library. */
#pragma once

#include "estimator/training/target.h"

/* A row of rates.def. */
typedef enum mp_timed_family {
#define RATE(ID, name, product, memory) MP_TIMED_##ID,
#include "estimator/training/rates.def"
    MP_N_TIMED
} mp_timed_family;

/* One kernel: its family, the bytes that it moves, and its arithmetic. */
typedef struct mp_rate_kernel {
    mp_timed_family family;
    mp_dtype dtype;
    double moved_bytes;                 /* bytes read from memory plus bytes written to memory */
    double reordered_bytes;             /* bytes of tensors that a convolution converts between NCHW and NHWC */
    double flops;                       /* arithmetic of attention and of depthwise convolutions */
    double launch_share;                /* launches per node; less than 1 if one kernel serves several nodes; 0: one launch */
    double batch, rows, columns, depth; /* sizes of a matrix product; rows 0: the kernel computes no matrix product */
} mp_rate_kernel;

/* The sizes of a convolution. A position is a place of the window in one image of the batch. */
typedef struct mp_rate_convolution {
    double groups, in_channels, out_channels; /* channels are per group */
    double window;                            /* number of elements of the window */
    double in_positions, out_positions;
    bool is_channels_last;
} mp_rate_convolution;

/* The results of a convolution and of its backward pass, each computed by one kernel. */
typedef enum mp_convolution_part {
    MP_CONVOLUTION_FORWARD,
    MP_CONVOLUTION_DATA,   /* the gradient of the input */
    MP_CONVOLUTION_WEIGHT, /* the gradient of the weight */
    MP_N_CONVOLUTION_PARTS
} mp_convolution_part;

/* The seconds of a kernel, at the device's peak rates: all shares of rates.def are 1. */
typedef struct mp_kernel_parts {
    double product, memory, reordering;
} mp_kernel_parts;

/* Returns the name of a row of rates.def, and the row with a name. MP_N_TIMED: no row has the name. */
const char *mp_timed_family_name(mp_timed_family family);
mp_timed_family mp_timed_family_find(const char *name);

/* Returns the kernel of a matrix product of `batch` pairs of matrices (rows x depth and depth x columns). */
mp_rate_kernel mp_kernel_of_product(mp_dtype dtype, double batch, double rows, double columns, double depth,
                                    double moved_bytes);
/* Returns the kernel of a part of a convolution as an implicit matrix product. */
mp_rate_kernel mp_kernel_of_convolution(mp_dtype dtype, const mp_rate_convolution *c, mp_convolution_part part,
                                        double moved_bytes);
/* Returns the kernel of a node of a training graph. */
mp_rate_kernel mp_kernel_of_work(const mp_work *work);

mp_kernel_parts mp_kernel_at_peak(const mp_device *device, const mp_rate_kernel *kernel);
/* Returns the seconds of a kernel at achieved rates, launch included. */
double mp_kernel_seconds(const mp_device *device, const mp_rate_kernel *kernel);
