/* rows_cuda.h - rows of a table by index (operators/gathers/index_plan.h), on the GPU. All only enqueue. Private to
 * executor/cuda/.
 *
 * Indices are looked at when the device runs, where nothing can be reported: an index outside of its axis reads zero, and
 * what it would write goes nowhere. Each result is the same every time: entries of one row are sorted by it first
 * and are summed in the order of the entries, in pieces of MP_CUDA_PIECE entries.
 */
#pragma once

#include "executor/operators/gathers/index_plan.h"

enum { MP_CUDA_PIECE = 32 };

/* other[entry] = table[row]. */
void mp_cuda_rows_pick(const mp_row_entries *rows, const mp_array *indices, int size, const void *table, void *other);
/* table[row] = 0. */
void mp_cuda_rows_clear(const mp_row_entries *rows, const mp_array *indices, int size, void *table);
/* table[row] is reduced with other[entry]; `room`: mp_cuda_rows_room bytes, aligned to 16. Float sums are rounded once. */
void mp_cuda_rows_reduce(const mp_row_entries *rows, const mp_array *indices, mp_index_reduction how, mp_dtype dtype,
                         void *table, const void *other, void *room);
int64_t mp_cuda_rows_room(const mp_row_entries *rows, mp_index_reduction how, mp_dtype dtype);

/* The places of the first ones among the n first elements of a condition (BOOL, dense) that are true; INT64_MIN where there are
 * no more. `list`: INT64, dense. */
void mp_cuda_list_true(const mp_array *condition, int64_t n, const mp_array *list);

/* The list of entries (row << 32 | entry), sorted by row, digit by digit and stable: time linear in the entries, for each 6
 * bits of the number of rows. Those that name none are of row n_rows. The list lies in the room, of mp_cuda_rows_sort_room
 * bytes. */
const uint64_t *mp_cuda_rows_sort(const mp_row_entries *rows, const mp_array *indices, void *room);
int64_t mp_cuda_rows_sort_room(const mp_row_entries *rows);
