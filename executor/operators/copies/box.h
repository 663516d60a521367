/* box.h - a box: a loop nest that copies elements, with one set of strides for reading and another for writing. Every backend
 * uses boxes. */
#pragma once

#include "executor/kernel/array.h"

enum { MP_BOX_RANK = 2 * MP_ARRAY_RANK };

/* The element with index (i0, i1, ...), below `dims`, is read at offset i0 * from[0] + i1 * from[1] + ... and written at
 * offset i0 * to[0] + i1 * to[1] + ... */
typedef struct mp_box {
    int rank;
    int64_t dims[MP_BOX_RANK], from[MP_BOX_RANK], to[MP_BOX_RANK];
} mp_box;

/* Adds a dimension to a box as the innermost one. A dimension of size 1 is not added. */
void mp_box_put(mp_box *box, int64_t dim, int64_t from, int64_t to);
int64_t mp_box_elements(const mp_box *box);
/* Returns the box that copies array `from` to array `to`, index by index. from NULL: one element is copied to all elements of
 * `to`. */
mp_box mp_box_of(const mp_array *from, const mp_array *to);
/* Normalizes a box. The result has at least two dimensions, with the largest writing strides outermost. Dimensions are merged
 * if the reading strides and the writing strides permit it. The dimension with contiguous reads is adjacent to the dimension
 * with contiguous writes. */
void mp_box_settle(mp_box *box);
