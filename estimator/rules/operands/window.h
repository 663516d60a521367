/* window.h - the sliding windows of convolutions and pools: kernel, strides, dilations, padding. */
#pragma once

#include "estimator/model/ops.h"

typedef enum mp_padding { MP_PADDING_EXPLICIT, MP_PADDING_VALID, MP_PADDING_SAME } mp_padding;

typedef struct mp_window {
    int n; /* spatial dimensions */
    mp_padding padding;
    bool ceil_mode;
    int64_t kernel[MP_RANK_MAX], stride[MP_RANK_MAX], dilation[MP_RANK_MAX];
    int64_t span[MP_RANK_MAX];                    /* extent of the window, (kernel - 1) * dilation + 1 */
    int64_t begin[MP_RANK_MAX], end[MP_RANK_MAX]; /* pads; zero unless the padding is explicit */
} mp_window;

/* Reads the attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for n spatial dimensions; `kernel` (n
 * sizes) is what the weight says, NULL without one: then kernel_shape must be there. MP_PARSE: a list of another length, a size
 * out of range, kernel_shape and weight that differ. */
mp_status mp_window_read(mp_infer *c, int n, const int64_t *kernel, mp_window *window);

/* Computes the n sizes that result from sliding the window over `in` (convolution, pooling). MP_PARSE if it does not fit. */
mp_status mp_window_slide(const mp_infer *c, const mp_window *window, const int64_t *in, int64_t *out);

/* Computes the sizes from which sliding gives `in` (transposed convolution, unpooling). `output_padding` NULL: zeros. */
mp_status mp_window_unslide(const mp_infer *c, const mp_window *window, const int64_t *in, const int64_t *output_padding,
                            int64_t *out);

/* Col2Im: images as sums of windows, read off its operands. The columns (N, C * taps, stops) hold what lies under
 * each tap of the window at each of its stops; taps and stops are counted row-major. */

typedef struct mp_columns {
    mp_window window;
    int64_t image[MP_RANK_MAX], stops[MP_RANK_MAX]; /* per spatial dimension: the image's size, and the window's positions */
    int64_t n_taps;                                 /* elements of one window */
} mp_columns;

/* Reads the operands of Col2Im. *known is false (and missing_value set) if the sizes of image or window are not known.
 * MP_PARSE: sizes that do not fit the columns or each other. */
mp_status mp_columns_read(mp_infer *c, mp_columns *columns, bool *known);
