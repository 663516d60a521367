/* box.h - a box: a loop nest that reads elements with one set of strides and writes them with another. For every backend. */
#pragma once

#include "executor/kernel/array.h"

enum { MP_BOX_RANK = 2 * MP_ARRAY_RANK };

/* The element with index (i0, i1, ...), below `dims`, is read at offset i0 * from[0] + i1 * from[1] + ... and written at i0 *
 * to[0] + ... Strides are in elements and may be negative. A reading stride of 0 repeats an element. A box without dimensions
 * is one element. */
typedef struct mp_box {
    int rank;
    int64_t dims[MP_BOX_RANK], from[MP_BOX_RANK], to[MP_BOX_RANK];
} mp_box;

/* Adds an innermost dimension; a dimension of size 1 is skipped. */
void mp_box_put(mp_box *box, int64_t dim, int64_t from, int64_t to);
int64_t mp_box_elements(const mp_box *box);
/* Returns the box of all elements of `to`, read at the same indices of `from` (NULL: all from one element). */
mp_box mp_box_of(const mp_array *from, const mp_array *to);
/* Normalizes a box. The result has at least two dimensions, with the largest writing strides outermost. Dimensions are merged
 * if both sides permit it. The dimension with contiguous reads is next to the one with contiguous writes. */
void mp_box_settle(mp_box *box);
