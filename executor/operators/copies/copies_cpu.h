/* copies_cpu.h - copies boxes of elements with any strides at memory speed. Private to executor/cpu/.
 *
 * Contiguous runs are copied as a whole. If reads and writes have different innermost dimensions, the box is transposed in
 * small square tiles. */
#pragma once

#include "executor/operators/copies/box.h"

/* Copies elements of `size` bytes (1, 2, 4 or 8) on all threads. Source and destination must not overlap, and no element may
 * be written twice. */
void mp_box_copy(const mp_box *box, int size, const void *from, void *to);
/* As mp_box_copy, in the calling thread only, for a normalized box that is copied many times. */
void mp_box_copy_settled(const mp_box *box, int size, const void *from, void *to);

/* Copies an array to another of the same shape and type, index by index; does nothing if both have the same address. */
void mp_cpu_array_copy(const mp_array *from, const mp_array *to);
/* Sets all elements to zero. */
void mp_cpu_array_zero(const mp_array *a);

/* The two innermost dimensions of a box: rows x columns, with the strides for reading and writing in elements. */
typedef struct mp_plane {
    int64_t rows, columns;
    int64_t from_row, from_column, to_row, to_column;
} mp_plane;

/* Copies a plane of elements of `size` bytes in the calling thread. */
void mp_plane_copy(const mp_plane *plane, int size, const void *from, void *to);
