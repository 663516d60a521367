/* array.h - a tensor in memory, as kernels see it: an address, an element type, sizes and strides. */
#pragma once

#include "estimator/model/model.h"

enum { MP_ARRAY_RANK = 12 }; /* more dimensions than this are refused */

/* Dims are in the order of the model (N, C, H, W), whatever the layout: that is in the strides. A tensor whose elements lie in
 * blocks of the backend's own (packed weights) has no strides; `packed` is then the backend's description of it. */
typedef struct mp_array {
    void *data;     /* NULL while there is no memory yet, or where the node at hand does not read it */
    mp_dtype dtype; /* UNDEFINED: there is no such operand */
    int rank;
    int64_t dims[MP_ARRAY_RANK];
    int64_t strides[MP_ARRAY_RANK]; /* in elements; dense: all elements lie side by side in some order of the dimensions */
    const void *packed;             /* NULL: strides hold */
} mp_array;

/* A dense array of this type and shape in the order of its dimensions (row-major), without data. rank <= MP_ARRAY_RANK. */
mp_array mp_array_plain(mp_dtype dtype, int rank, const int64_t *dims);
/* The same with the second dimension innermost (N, H, W, C in memory); rank >= 3. */
mp_array mp_array_channels_last(mp_dtype dtype, int rank, const int64_t *dims);
/* Describes a tensor as the model lays it out (mp_tensor.stored), with the type `dtype` that it is computed in.
 * MP_UNSUPPORTED: it has too many dimensions. */
mp_status mp_array_of(const mp_tensor *tensor, mp_dtype dtype, mp_array *out, mp_error *err);

/* Writes a value that the model knows into a row-major array of as many elements. Returns false if the array is of a type that
 * it does not write. */
bool mp_array_write(const mp_array *to, const mp_value *value);

int64_t mp_array_elements(const mp_array *a); /* returns the product of dims */
int64_t mp_array_bytes(const mp_array *a); /* returns elements times their size; of packed arrays: mp_stored.packed_elements */
bool mp_array_is_plain(const mp_array *a); /* row-major without gaps (dimensions of size 1 have any stride) */
/* True if both arrays have the same shape, and every element lies at the same place in both. */
bool mp_array_same_layout(const mp_array *a, const mp_array *b);
/* Writes the dimensions whose size is not 1 into order[], the largest stride first; returns how many there are. */
int mp_array_by_stride(const mp_array *a, int order[MP_ARRAY_RANK]);
