/* sliding.h - the windows of convolutions and pools with every pad made explicit: the same for every backend. */
#pragma once

#include "executor/kernel/array.h"

/* Per spatial dimension. */
typedef struct mp_sliding {
    int n; /* spatial dimensions */
    bool is_transposed;
    int64_t groups;
    int64_t kernel[MP_ARRAY_RANK], stride[MP_ARRAY_RANK], dilation[MP_ARRAY_RANK]; /* dilation 1: none */
    int64_t begin[MP_ARRAY_RANK], end[MP_ARRAY_RANK];
} mp_sliding;

/* The window of Conv or ConvTranspose over x, weights and y. Pads behind the data are what is left, so that the sizes agree
 * exactly: negative where the window does not reach the end. */
mp_status mp_sliding_convolution(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *weights,
                                 const mp_array *y, mp_sliding *out, mp_error *err);
/* The window of a pool; `global`: all of x. Its pads are those that averages may count, so with ceil_mode windows may reach
 * beyond them. */
mp_status mp_sliding_pool(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *y, bool global,
                          mp_sliding *out, mp_error *err);
