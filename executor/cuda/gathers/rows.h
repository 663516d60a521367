/* gathers.h - picking and placing by index on the GPU: what executor/operators/gathers/row_entries.h describes, run by the
 * device. All only enqueue. Private to executor/cuda/.
 *
 * Indices are looked at when the device runs, where nothing can be reported: an index outside of its axis reads zero, and
 * what it would write goes nowhere. Each result is the same every time: entries that meet in one row are sorted by it first
 * (digit by digit and stable; time linear in the entries, for each 6 bits of the number of rows), and are summed in the order
 * of the entries, in pieces of MP_CUDA_PIECE entries.
 */
#ifndef EXECUTOR_CUDA_GATHERS_H
#define EXECUTOR_CUDA_GATHERS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/operators/gathers/index_lines.h"
#include "executor/operators/gathers/meeting.h"
#include "executor/operators/gathers/row_entries.h"

enum { MP_CUDA_PIECE = 32 };

/* other[entry] = table[row]. */
void mp_cuda_rows_gather(const mp_row_entries *rows, const mp_array *indices, int size, const void *table, void *other);
/* table[row] = 0. */
void mp_cuda_rows_clear(const mp_row_entries *rows, const mp_array *indices, int size, void *table);
/* table[row] meets other[entry]; `room`: mp_cuda_rows_room bytes, aligned to 16. Float sums are rounded once. */
void mp_cuda_rows_meet(const mp_row_entries *rows, const mp_array *indices, mp_meeting how, mp_dtype dtype, void *table,
                       const void *other, void *room);
int64_t mp_cuda_rows_room(const mp_row_entries *rows, mp_meeting how, mp_dtype dtype);

/* The list of entries (row << 32 | entry), sorted by row; those that name none are of row n_rows. It lies in the room, of
 * mp_cuda_rows_sort_room bytes. */
const uint64_t *mp_cuda_rows_sort(const mp_row_entries *rows, const mp_array *indices, void *room);
int64_t mp_cuda_rows_sort_room(const mp_row_entries *rows);

/* The places of the first ones among the n first elements of a condition (BOOL, dense) that are true; INT64_MIN where there are
 * no more. `list`: INT64, dense. */
void mp_cuda_list_true(const mp_array *condition, int64_t n, const mp_array *list);

/* other = table[index]; table[index] meets other (which may be of another float type); table[index] = 0. */
void mp_cuda_lines_gather(const mp_index_lines *lines);
void mp_cuda_lines_meet(const mp_index_lines *lines, mp_meeting how);
void mp_cuda_lines_clear(const mp_index_lines *lines);

/* OneHot: `values`: off and on, where calls run. */
void mp_cuda_one_hot(const mp_array *indices, const mp_array *out, int axis, const void *values);
/* ReverseSequence: the first lengths[b] steps of batch b in reverse. */
void mp_cuda_reverse(const mp_array *from, const mp_array *to, const mp_array *lengths, int batch, int time);

#ifdef __cplusplus
}
#endif

#endif
