/* rows_cpu.h - picks and reduces rows of a table by a list of entries (index_plan.h), on the CPU.
 *
 * One thread combines an element of the table with all entries that select it, in their order, so results are deterministic. */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* Reads the indices (INT64 or INT32, dense) into a list of mp_rows_list_bytes bytes, in the order of the index entries. *n_read
 * is the number of listed entries; entries for rows of other ranks are omitted. MP_INVALID: an index is outside of its axis;
 * the message names the index. */
mp_status mp_cpu_rows_read(const mp_row_entries *rows, const mp_operands *x, const mp_array *indices, uint64_t *list,
                           int64_t *n_read, mp_error *err);
/* Sorts a list of index entries by row. The memory after the list must have room for a second list of the same size. Returns
 * the sorted list: the first or the second one. Entries of one row keep their order. O(entries) for each 11 bits of the number
 * of rows. */
const uint64_t *mp_cpu_rows_sort(const mp_row_entries *rows, uint64_t *list);

/* Copies rows: other[entry] = table[row], for every index entry of the list. */
void mp_cpu_rows_pick(const mp_row_entries *rows, const uint64_t *list, int size, const void *table, void *other);
/* Combines table[row] with other[entry] for every index entry of a sorted list, and stores the result in the table. With
 * MP_INDEX_SET, `other` may be NULL: the rows are set to zero. Sums of BFLOAT16 are computed in float and rounded once. */
void mp_cpu_rows_reduce(const mp_row_entries *rows, const uint64_t *sorted, mp_index_reduction how, mp_dtype dtype, void *table,
                        const void *other);
/* Combines into[into_at + k * into_stride] with values[at + k * stride] for k < n, and stores the result in `into`. */
void mp_cpu_reduce(mp_index_reduction how, mp_dtype dtype, int64_t n, void *into, int64_t into_at, int64_t into_stride,
                   const void *values, int64_t at, int64_t stride);
