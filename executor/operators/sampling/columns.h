/* columns.h - Col2Im: the sum of overlapping windows to an image, and its gradient, for every backend. */
#pragma once

#include "executor/kernel/body.h"

/* Forward computes each element of the image (N, C, ...) as the sum of all column elements (N, C * n_taps, number of windows)
 * that cover it. Backward copies the gradient of each image element to the column elements that cover it. The window has n
 * dimensions. */
typedef struct mp_col2im {
    int n;
    int64_t n_taps, n_elements; /* n_taps: number of taps (elements) of the window; n_elements: number of elements per channel
                                   of the image */
    int64_t stops[MP_ARRAY_RANK], kernel[MP_ARRAY_RANK], stride[MP_ARRAY_RANK], dilation[MP_ARRAY_RANK], begin[MP_ARRAY_RANK];
    mp_array columns, image; /* columns: the input; image: the output; in backward, their gradients */
    bool is_backward, add;   /* add: accumulates into the gradient */
} mp_col2im;

/* Prepares a call of Col2Im, whose state is an mp_col2im. MP_UNSUPPORTED: the type is neither FLOAT nor BFLOAT16, or sizes are
 * only known at run time; MP_NOMEM. */
mp_status mp_col2im_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_col2im_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

/* Returns the number of the window whose tap (element) `tap` covers the image element with coordinates at[]; -1: none. */
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

/* Computes element k of the image in forward: the sum over all windows that cover it. */
MP_INLINE void mp_col2im_sum(const mp_col2im *s, int64_t k)
{
    const mp_array *x = &s->columns, *y = &s->image;
    int64_t channel = k / s->n_elements % y->dims[1], sample = k / s->n_elements / y->dims[1], left = k % s->n_elements;
    int64_t row = sample * x->strides[0] + channel * s->n_taps * x->strides[1];
    int64_t at[MP_ARRAY_RANK], to = sample * y->strides[0] + channel * y->strides[1];
    float sum = 0;
    for (int d = s->n - 1; d >= 0; d--) {
        at[d] = left % y->dims[d + 2];
        left /= y->dims[d + 2];
        to += at[d] * y->strides[d + 2];
    }
    for (int64_t tap = 0; tap < s->n_taps; tap++) {
        int64_t stop = mp_col2im_stop(s, at, tap);
        if (stop >= 0) sum += mp_array_load(x, row + tap * x->strides[1] + stop * x->strides[2]);
    }
    mp_array_store(y, to, sum);
}

/* Computes the gradient of element k of the columns: the gradient of the image element that this element covers, or 0 in the
 * padding. */
MP_INLINE void mp_col2im_give(const mp_col2im *s, int64_t k)
{
    const mp_array *dx = &s->columns, *dy = &s->image;
    int64_t stop = k % dx->dims[2], row = k / dx->dims[2] % dx->dims[1], sample = k / dx->dims[2] / dx->dims[1];
    int64_t to = sample * dx->strides[0] + row * dx->strides[1] + stop * dx->strides[2], tap = row % s->n_taps;
    int64_t from = sample * dy->strides[0] + row / s->n_taps * dy->strides[1];
    bool inside = true;
    for (int d = s->n - 1; d >= 0; d--) {
        int64_t at = stop % s->stops[d] * s->stride[d] - s->begin[d] + tap % s->kernel[d] * s->dilation[d];
        inside = inside && at >= 0 && at < dy->dims[d + 2];
        from += at * dy->strides[d + 2];
        stop /= s->stops[d];
        tap /= s->kernel[d];
    }
    mp_array_store(dx, to, (s->add ? mp_array_load(dx, to) : 0) + (inside ? mp_array_load(dy, from) : 0));
}

MP_INLINE void mp_col2im_item(const mp_col2im *s, int64_t k)
{
    if (s->is_backward)
        mp_col2im_give(s, k);
    else
        mp_col2im_sum(s, k);
}
