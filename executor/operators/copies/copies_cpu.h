/* copies_cpu.h - copies boxes of elements between places of any strides, at the speed of memory. Private to
 * executor/cpu/.
 *
 * Runs that are contiguous on both sides are copied whole, and a box whose two sides have different innermost dimensions is
 * transposed in small square tiles.
 */
#pragma once

#include "executor/operators/copies/box.h"

/* Copies elements of `size` bytes (1, 2, 4 or 8) on all threads. The two sides may not overlap; two elements of the box may not
 * be written to one place. */
void mp_box_copy(const mp_box *box, int size, const void *from, void *to);
/* The same for a box that is settled already and copied many times, in the calling thread alone. */
void mp_box_copy_settled(const mp_box *box, int size, const void *from, void *to);

/* All elements of `from` to the same indices of `to`, which has its shape and type; nothing where both are the same. */
void mp_cpu_array_copy(const mp_array *from, const mp_array *to);
/* All elements become zero. */
void mp_cpu_array_zero(const mp_array *a);

/* A plane of a box: rows x columns; strides in elements. */
typedef struct mp_plane {
    int64_t rows, columns;
    int64_t from_row, from_column, to_row, to_column;
} mp_plane;

/* Elements of `size` bytes, in the calling thread. */
void mp_plane_copy(const mp_plane *plane, int size, const void *from, void *to);
