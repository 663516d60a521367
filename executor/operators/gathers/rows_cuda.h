/* rows_cuda.h - picks, clears and reduces rows of a table by index (index_plan.h) on the GPU. All functions only enqueue.
 * Private to executor/cuda/.
 *
 * A kernel cannot report errors: an index outside of its axis reads zero and writes nothing. Results are deterministic:
 * entries are first sorted by row, and the entries of a row are summed in their order: first within pieces of MP_CUDA_PIECE
 * entries, then over the pieces. */
#pragma once

#include "executor/operators/gathers/index_plan.h"

enum { MP_CUDA_PIECE = 32 };

/* Copies rows: other[entry] = table[row], for every index entry. */
void mp_cuda_rows_pick(const mp_row_entries *rows, const mp_array *indices, int size, const void *table, void *other);
/* Sets rows to zero: table[row] = 0, for the row that each index entry selects. */
void mp_cuda_rows_clear(const mp_row_entries *rows, const mp_array *indices, int size, void *table);
/* Combines table[row] with other[entry] for every index entry. A sum is computed in float and rounded once. `room` is workspace
 * of mp_cuda_rows_workspace_bytes bytes, aligned to 16. */
void mp_cuda_rows_reduce(const mp_row_entries *rows, const mp_array *indices, mp_index_reduction how, mp_dtype dtype,
                         void *table, const void *other, void *room);
int64_t mp_cuda_rows_workspace_bytes(const mp_row_entries *rows, mp_index_reduction how, mp_dtype dtype);

/* Fills `list` (INT64, dense) with the indices of the true elements among the first n of a condition (BOOL, dense), in order.
 * The remaining elements become INT64_MIN. */
void mp_cuda_list_true(const mp_array *condition, int64_t n, const mp_array *list);

/* Returns the list of index entries (row << 32 | entry), sorted by row. An entry whose index is outside of its axis gets row
 * n_rows. The list is stored in `room`, which has mp_cuda_rows_sort_workspace_bytes bytes. The sort is a stable radix sort. Its
 * time is linear in the number of entries for each 6 bits of the number of rows. */
const uint64_t *mp_cuda_rows_sort(const mp_row_entries *rows, const mp_array *indices, void *room);
int64_t mp_cuda_rows_sort_workspace_bytes(const mp_row_entries *rows);
