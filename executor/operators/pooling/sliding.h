/* sliding.h - the windows of convolutions and pools with every pad made explicit, and what a pool does: the same for every
 * backend. */
#pragma once

#include "executor/kernel/array.h"
#include "executor/kernel/kernel.h"

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

typedef enum mp_pooling_rule { MP_POOLING_MAXIMUM, MP_POOLING_AVERAGE, MP_POOLING_NORM } mp_pooling_rule;

#define MP_POOLINGS(X)               \
    X("MaxPool", MAXIMUM, false)     \
    X("AveragePool", AVERAGE, false) \
    X("LpPool", NORM, false)         \
    X("GlobalMaxPool", MAXIMUM, true) X("GlobalAveragePool", AVERAGE, true) X("GlobalLpPool", NORM, true)

typedef struct mp_pooling {
    mp_pooling_rule rule;
    mp_sliding window;
    int64_t n_taps;       /* of one window */
    bool is_global;       /* the window is everything */
    bool counts_pads;     /* averages are over pads too */
    bool wide, backwards; /* positions of maxima are int32, not uint8; given positions count the first dimension fastest */
    double p;             /* of the norm */
} mp_pooling;

/* MaxPool, AveragePool, LpPool and their global forms, forward or backward. MP_UNSUPPORTED: a type that is neither FLOAT nor
 * BFLOAT16; MP_INVALID: a window that does not fit. */
mp_status mp_pooling_read(const mp_operands *x, mp_pooling *out, mp_error *err);
