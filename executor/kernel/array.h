/* array.h - a tensor in memory, as kernels see it: an address, an element type, sizes and strides. */
#pragma once

#include "estimator/model/model.h"

enum { MP_ARRAY_RANK = 12 }; /* maximum number of dimensions of an array */

/* Sizes are in the order of the model (N, C, H, W) in every layout; only the strides differ. Packed weights are stored in a
 * backend's own blocked layout and have no strides; `packed` then points to the backend's description of that layout. */
typedef struct mp_array {
    void *data;     /* address of the elements; NULL: no memory is assigned yet, or the node does not read this operand */
    mp_dtype dtype; /* UNDEFINED: the operand is absent */
    int rank;
    int64_t dims[MP_ARRAY_RANK];
    /* strides in elements. A dense array has no gaps: its elements fill one block of memory, in any order of the dimensions */
    int64_t strides[MP_ARRAY_RANK];
    int64_t padding;    /* number of unused elements between two rows (MP_LAYOUT_ALIGNED_ROWS) */
    const void *packed; /* description of the packed layout; NULL: not packed, the strides are valid */
} mp_array;

/* Returns a dense row-major array with the given type and shape, without data. rank <= MP_ARRAY_RANK. */
mp_array mp_array_plain(mp_dtype dtype, int rank, const int64_t *dims);
/* Returns a dense array in channels-last layout (N, H, W, C in memory), without data: dimension 1 is innermost. rank >= 3. */
mp_array mp_array_channels_last(mp_dtype dtype, int rank, const int64_t *dims);
/* Returns a row-major array with `padding` unused elements between two rows, without data. rank >= 1. */
mp_array mp_array_padded_rows(mp_dtype dtype, int rank, const int64_t *dims, int64_t padding);
/* Describes a tensor in the layout of the model (mp_tensor.stored), with elements of type `dtype`. MP_UNSUPPORTED: the tensor
 * has more than MP_ARRAY_RANK dimensions. */
mp_status mp_array_of(const mp_tensor *tensor, mp_dtype dtype, mp_array *out, mp_error *err);

/* Writes a constant of the model into a row-major array with the same number of elements. Returns false if the array's type is
 * not supported. */
bool mp_array_write(const mp_array *to, const mp_value *value);

int64_t mp_array_elements(const mp_array *a);        /* returns the product of dims */
int64_t mp_array_stored_elements(const mp_array *a); /* returns the number of elements and of unused elements behind rows */
int64_t mp_array_bytes(
    const mp_array *a); /* returns the bytes of all stored elements; a packed array has mp_stored.packed_elements elements */
bool mp_array_is_plain(
    const mp_array *a); /* true if the array is row-major without gaps; dimensions of size 1 may have any stride */
/* True if both arrays have the same shape and the same bytes, and every element has the same offset in both. */
bool mp_array_same_layout(const mp_array *a, const mp_array *b);
/* True if both arrays store the same number of elements in row-major order, with the same unused elements between rows. One is
 * then a view of the other, whatever their shapes. */
bool mp_array_same_rows(const mp_array *a, const mp_array *b);
/* Writes the dimensions whose size is not 1 into order[], the largest stride first; returns the number of these dimensions. */
int mp_array_by_stride(const mp_array *a, int order[MP_ARRAY_RANK]);
