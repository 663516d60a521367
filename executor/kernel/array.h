/* array.h - a tensor in memory, as kernels see it: an address, an element type, sizes and strides. */
#pragma once

#include "estimator/model/model.h"

enum { MP_ARRAY_RANK = 12 }; /* arrays with more dimensions are refused */

/* Sizes are in the order of the model (N, C, H, W) in every layout; only the strides differ. A tensor whose elements lie in
 * blocks of the backend's own (packed weights) has no strides; `packed` is then the backend's description of it. */
typedef struct mp_array {
    void *data;     /* NULL: there is no memory yet, or this node does not read it */
    mp_dtype dtype; /* UNDEFINED: the operand is absent */
    int rank;
    int64_t dims[MP_ARRAY_RANK];
    int64_t strides[MP_ARRAY_RANK]; /* in elements. A dense array has no gaps, in some order of its dimensions */
    const void *packed;             /* NULL: the strides are valid */
} mp_array;

/* A dense array of this type and shape in the order of its dimensions (row-major), without data. rank <= MP_ARRAY_RANK. */
mp_array mp_array_plain(mp_dtype dtype, int rank, const int64_t *dims);
/* A dense array whose second dimension is innermost (N, H, W, C in memory), without data; rank >= 3. */
mp_array mp_array_channels_last(mp_dtype dtype, int rank, const int64_t *dims);
/* Describes a tensor in the layout that the model gives it (mp_tensor.stored), computed in type `dtype`. MP_UNSUPPORTED: it
 * has too many dimensions. */
mp_status mp_array_of(const mp_tensor *tensor, mp_dtype dtype, mp_array *out, mp_error *err);

/* Writes a constant of the model into a row-major array of as many elements. Returns false if it cannot write the array's
 * type. */
bool mp_array_write(const mp_array *to, const mp_value *value);

int64_t mp_array_elements(const mp_array *a); /* returns the product of dims */
int64_t mp_array_bytes(const mp_array *a); /* returns elements times their size; of packed arrays: mp_stored.packed_elements */
bool mp_array_is_plain(const mp_array *a); /* True if it is row-major without gaps (dimensions of size 1 may have any stride) */
/* True if both arrays have the same shape, and every element has the same offset in both. */
bool mp_array_same_layout(const mp_array *a, const mp_array *b);
/* Writes the dimensions whose size is not 1 into order[], the largest stride first; returns how many there are. */
int mp_array_by_stride(const mp_array *a, int order[MP_ARRAY_RANK]);
