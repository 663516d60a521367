/* strided_copy.h - copies boxes of elements between places of any strides, at the speed of memory. Private to executor/cpu/.
 *
 * Dimensions are merged where both sides allow it. Runs that are contiguous on both sides are copied whole, a box whose two
 * sides have different innermost dimensions is transposed in small square tiles, and a stride of 0 on the reading side repeats.
 */
#ifndef EXECUTOR_CPU_STRIDED_COPY_H
#define EXECUTOR_CPU_STRIDED_COPY_H

#include "executor/kernel/array.h"

enum { MP_BOX_RANK = 2 * MP_ARRAY_RANK };

/* The index (i0, i1, ...) below `dims` is read at i0 * from[0] + i1 * from[1] + ... and written at i0 * to[0] + ... Strides are
 * in elements and may be negative. A box without dimensions is one element. */
typedef struct mp_box {
    int rank;
    int64_t dims[MP_BOX_RANK], from[MP_BOX_RANK], to[MP_BOX_RANK];
} mp_box;

/* Adds an innermost dimension; one of size 1 changes nothing and is left out. */
void mp_box_put(mp_box *box, int64_t dim, int64_t from, int64_t to);
int64_t mp_box_elements(const mp_box *box);

/* Copies elements of `size` bytes (1, 2, 4 or 8) on all threads. The two sides may not overlap; two elements of the box may not
 * be written to one place. */
void mp_box_copy(const mp_box *box, int size, const void *from, void *to);

/* The same for a box that is copied many times: settled once, it is then copied by the calling thread alone. */
void mp_box_settle(mp_box *box);
void mp_box_copy_settled(const mp_box *box, int size, const void *from, void *to);

/* One plane of rows and columns; strides in elements (strided_planes.c). */
typedef struct mp_plane {
    int64_t rows, columns;
    int64_t from_row, from_column, to_row, to_column;
} mp_plane;
void mp_plane_copy(const mp_plane *plane, int size, const void *from, void *to);
/* Whether it goes through tiles, which want rows in multiples of MP_PLANE_ROWS. */
enum { MP_PLANE_ROWS = 32 };
static inline bool mp_plane_is_transposed(const mp_plane *p)
{
    return p->to_column == 1 && p->from_row == 1 && p->from_column != 1 && p->columns > 1;
}

#endif
