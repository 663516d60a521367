/* sliding.h - the sliding windows of convolutions and pools, with explicit padding, and the rules of pools. Every backend uses
 * this description. */
#pragma once

#include "executor/kernel/array.h"
#include "executor/kernel/kernel.h"

/* A sliding window; each array has one entry per spatial dimension. */
typedef struct mp_sliding {
    int n; /* number of spatial dimensions */
    bool is_transposed;
    int64_t groups;
    int64_t kernel[MP_ARRAY_RANK], stride[MP_ARRAY_RANK],
        dilation[MP_ARRAY_RANK]; /* dilation: distance between the taps (elements) of a window; 1: taps are adjacent elements */
    int64_t begin[MP_ARRAY_RANK], end[MP_ARRAY_RANK]; /* padding at the start and the end */
} mp_sliding;

/* Reads the window of Conv or ConvTranspose over x, weights and y. The padding at the end is computed so that the last window
 * ends exactly at the end of the padded data. This padding is negative if the last window ends before the data ends.
 * MP_UNSUPPORTED: sizes overflow; MP_PARSE: as mp_window_read. */
mp_status mp_sliding_convolution(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *weights,
                                 const mp_array *y, mp_sliding *out, mp_error *err);
/* Reads the window of a pool; `global`: the window is all of x. Averages may count elements of the window's padding. With
 * ceil_mode, windows may extend beyond this padding. MP_UNSUPPORTED: sizes overflow; MP_PARSE: as mp_window_read. */
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
    int64_t n_taps;   /* number of taps, the elements of a window */
    bool is_global;   /* true: the window is the whole input */
    bool counts_pads; /* true: averages also count padded elements */
    /* wide: true if forward saves taps (positions within a window) as int32, not uint8; backwards: true if indices in output 1
     * count column-major */
    bool wide, backwards;
    double p; /* exponent of the norm of LpPool */
} mp_pooling;

/* Reads MaxPool, AveragePool, LpPool and their global forms, for forward or backward. MP_UNSUPPORTED: the type is neither
 * FLOAT nor BFLOAT16, or the window is too large; MP_PARSE: the attributes contradict each other or the shapes. */
mp_status mp_pooling_read(const mp_operands *x, mp_pooling *out, mp_error *err);
