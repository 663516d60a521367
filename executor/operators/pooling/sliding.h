/* sliding.h - the windows of convolutions and pools with all pads computed, and the rules of pools, for every backend. */
#pragma once

#include "executor/kernel/array.h"
#include "executor/kernel/kernel.h"

/* A window; all arrays are per spatial dimension. */
typedef struct mp_sliding {
    int n; /* spatial dimensions */
    bool is_transposed;
    int64_t groups;
    int64_t kernel[MP_ARRAY_RANK], stride[MP_ARRAY_RANK], dilation[MP_ARRAY_RANK]; /* dilation 1: adjacent elements */
    int64_t begin[MP_ARRAY_RANK], end[MP_ARRAY_RANK];                              /* pads */
} mp_sliding;

/* Reads the window of Conv or ConvTranspose over x, weights and y. Its end pads are computed so that the sizes agree exactly:
 * one is negative if the last window ends before the data does. MP_UNSUPPORTED: sizes overflow; MP_PARSE as mp_window_read. */
mp_status mp_sliding_convolution(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *weights,
                                 const mp_array *y, mp_sliding *out, mp_error *err);
/* Reads the window of a pool; `global`: it is all of x. Its pads are those that averages may count; with ceil_mode, windows may
 * reach beyond them. MP_UNSUPPORTED: sizes overflow; MP_PARSE as mp_window_read. */
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
    int64_t n_taps;       /* elements of one window */
    bool is_global;       /* true: the window is the whole input */
    bool counts_pads;     /* true: averages count pads too */
    bool wide, backwards; /* extra 0 has taps as int32, not uint8; output 1 counts the first spatial dimension fastest */
    double p;             /* exponent of the norm */
} mp_pooling;

/* Reads MaxPool, AveragePool, LpPool and their global forms, forward or backward. MP_UNSUPPORTED: a type that is neither FLOAT
 * nor BFLOAT16, or too large a window; MP_PARSE: attributes that do not fit. */
mp_status mp_pooling_read(const mp_operands *x, mp_pooling *out, mp_error *err);
