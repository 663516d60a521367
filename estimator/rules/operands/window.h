/* window.h - the sliding windows of convolutions and pools: kernel, strides, dilations, padding. */
#pragma once

#include "estimator/model/ops.h"

typedef enum mp_padding { MP_PADDING_EXPLICIT, MP_PADDING_VALID, MP_PADDING_SAME } mp_padding;

typedef struct mp_window {
    int n; /* number of spatial dimensions */
    mp_padding padding;
    bool ceil_mode;
    int64_t kernel[MP_RANK_MAX], stride[MP_RANK_MAX], dilation[MP_RANK_MAX];
    int64_t span[MP_RANK_MAX]; /* extent of the dilated window in elements of the input: (kernel - 1) * dilation + 1 */
    int64_t begin[MP_RANK_MAX], end[MP_RANK_MAX]; /* padding before and after the input in each dimension, in elements; zero
                                                     unless the file states the padding explicitly */
} mp_window;

/* Reads the attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for n spatial dimensions. `kernel` has
 * the n sizes of the weight. For an operator without weight, `kernel` is NULL and kernel_shape is required. MP_PARSE: a list
 * has another length than n, a size is out of range, or kernel_shape differs from the weight. */
mp_status mp_window_read(mp_infer *c, int n, const int64_t *kernel, mp_window *window);

/* Computes the n output sizes of a convolution or pooling over an input of sizes `in`. MP_PARSE: the window does not fit
 * into the input. */
mp_status mp_window_slide(const mp_infer *c, const mp_window *window, const int64_t *in, int64_t *out);

/* Computes the inverse of mp_window_slide: the output sizes of a transposed convolution or unpooling over an input of sizes
 * `in`. `output_padding` NULL: zeros. */
mp_status mp_window_unslide(const mp_infer *c, const mp_window *window, const int64_t *in, const int64_t *output_padding,
                            int64_t *out);

/* The operands of Col2Im, which sums windows to an image. A tap is an element of the window; a stop is a position of the
 * window. The operand of shape (N, C * taps, stops) contains one element per tap and stop, both counted in row-major order. */

typedef struct mp_columns {
    mp_window window;
    /* per spatial dimension: `image` is the size of the image, `stops` the number of window positions */
    int64_t image[MP_RANK_MAX], stops[MP_RANK_MAX];
    int64_t n_taps; /* number of elements (taps) of one window */
} mp_columns;

/* Reads the operands of Col2Im. If the size of the image or window is unknown, *known is false and missing_value is set.
 * MP_PARSE: the sizes do not match the operand, or each other. */
mp_status mp_columns_read(mp_infer *c, mp_columns *columns, bool *known);
