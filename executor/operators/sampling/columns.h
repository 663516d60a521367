/* columns.h - Col2Im: an image as the sum of windows, and its gradient, for every backend. */
#pragma once

#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* `state` of its calls: the columns x (N, C * n_taps, stops), and per spatial dimension the image (N, C, ...) and the window.
 */
typedef struct mp_col2im {
    int n;
    int64_t n_taps;
    int64_t image[MP_ARRAY_RANK], stops[MP_ARRAY_RANK];
    int64_t kernel[MP_ARRAY_RANK], stride[MP_ARRAY_RANK], dilation[MP_ARRAY_RANK], begin[MP_ARRAY_RANK];
} mp_col2im;

/* An mp_col2im becomes the call's state; `run` is the backend's, which adds to the gradient where it is asked to.
 * MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16, sizes that are computed while it runs; MP_NOMEM. */
mp_status mp_col2im_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* The stop at which a tap of the window lies on an element of the image; -1: there is none. */
MP_INLINE int64_t mp_col2im_stop(const mp_col2im *s, const int64_t *at, int64_t tap)
{
    int64_t stop = 0, step = 1;
    for (int d = s->n - 1; d >= 0; d--) {
        int64_t from = at[d] + s->begin[d] - tap % s->kernel[d] * s->dilation[d];
        if (from < 0 || from % s->stride[d] || from / s->stride[d] >= s->stops[d]) return -1;
        stop += from / s->stride[d] * step;
        step *= s->stops[d];
        tap /= s->kernel[d];
    }
    return stop;
}

/* An element of the image, counted row-major: what all windows over it have there. */
MP_INLINE float mp_col2im_sum(const mp_col2im *s, const mp_array *x, int64_t sample, int64_t channel, int64_t element)
{
    int64_t at[MP_ARRAY_RANK], row = sample * x->strides[0] + channel * s->n_taps * x->strides[1];
    float sum = 0;
    for (int d = s->n - 1; d >= 0; d--) {
        at[d] = element % s->image[d];
        element /= s->image[d];
    }
    for (int64_t tap = 0; tap < s->n_taps; tap++) {
        int64_t stop = mp_col2im_stop(s, at, tap);
        if (stop >= 0) sum += mp_load_float(x->data, x->dtype, row + tap * x->strides[1] + stop * x->strides[2]);
    }
    return sum;
}

/* The gradient of one element of the columns: that of the image under it, zero where it is padding. */
MP_INLINE float mp_col2im_back(const mp_col2im *s, const mp_array *dy, int64_t sample, int64_t row, int64_t stop)
{
    int64_t tap = row % s->n_taps, from = sample * dy->strides[0] + row / s->n_taps * dy->strides[1];
    for (int d = s->n - 1; d >= 0; d--) {
        int64_t at = stop % s->stops[d] * s->stride[d] - s->begin[d] + tap % s->kernel[d] * s->dilation[d];
        if (at < 0 || at >= s->image[d]) return 0;
        from += at * dy->strides[d + 2];
        stop /= s->stops[d];
        tap /= s->kernel[d];
    }
    return mp_load_float(dy->data, dy->dtype, from);
}
