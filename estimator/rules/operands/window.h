/* window.h - the sliding windows of convolutions and pools: kernel, strides, dilations, padding. */
#pragma once

#include "estimator/model/ops.h"

typedef enum mp_padding { MP_PADDING_EXPLICIT, MP_PADDING_VALID, MP_PADDING_SAME } mp_padding;

typedef struct mp_window {
    int n; /* number of spatial dimensions */
    mp_padding padding;
    bool ceil_mode;
    int64_t kernel[MP_RANK_MAX], stride[MP_RANK_MAX], dilation[MP_RANK_MAX];
    int64_t span[MP_RANK_MAX]; /* extent of the window in elements of the input: (kernel - 1) * dilation + 1 */
    int64_t begin[MP_RANK_MAX],
        end[MP_RANK_MAX]; /* padding before and after each dimension, in elements; zero unless the padding is explicit */
} mp_window;

/* Reads the attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for n spatial dimensions. `kernel` has
 * the n sizes of the weight. Without a weight it is NULL, and kernel_shape is required. MP_PARSE: a list of another length, a
 * size out of range, or kernel_shape differs from the weight. */
mp_status mp_window_read(mp_infer *c, int n, const int64_t *kernel, mp_window *window);

/* Computes the n output sizes of sliding the window over `in` (convolution, pooling). MP_PARSE: the window does not fit. */
mp_status mp_window_slide(const mp_infer *c, const mp_window *window, const int64_t *in, int64_t *out);

/* Computes the sizes for which mp_window_slide gives `in` (transposed convolution, unpooling). `output_padding` NULL: zeros. */
mp_status mp_window_unslide(const mp_infer *c, const mp_window *window, const int64_t *in, const int64_t *output_padding,
                            int64_t *out);

/* Col2Im: images as sums of windows. The columns (N, C * taps, stops) contain the element under each tap of the window at each
 * of its stops. Taps and stops are counted row-major. */

typedef struct mp_columns {
    mp_window window;
    int64_t image[MP_RANK_MAX],
        stops[MP_RANK_MAX]; /* per spatial dimension: the image size, and the number of window positions */
    int64_t n_taps;         /* number of elements of one window */
} mp_columns;

/* Reads the operands of Col2Im. *known is false (and missing_value set) if the sizes of image or window are unknown. MP_PARSE:
 * sizes that do not fit the columns or each other. */
mp_status mp_columns_read(mp_infer *c, mp_columns *columns, bool *known);
