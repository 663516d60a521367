/* rows_cpu.h - rows of a table by a list of entries (index_plan.h), on the CPU.
 *
 * A row is brought up to date by one thread, in the order of its entries.
 */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* Reads the indices (INT64 or INT32, dense) into a list of mp_rows_list_bytes, in the order of entries. MP_INVALID names the
 * index that lies outside. */
mp_status mp_cpu_rows_read(const mp_row_entries *rows, const mp_operands *x, const mp_array *indices, uint64_t *list,
                           mp_error *err);
/* Sorts a list, behind which there is room for a second one, by row; returns the sorted list, which is either of the two.
 * O(entries) for each 11 bits of the number of rows. */
const uint64_t *mp_cpu_rows_sort(const mp_row_entries *rows, uint64_t *list);

/* other[entry] = table[row]. */
void mp_cpu_rows_pick(const mp_row_entries *rows, const uint64_t *list, int size, const void *table, void *other);
/* table[row] is reduced with other[entry], over a sorted list. With `other` NULL rows are set to zero. Sums of bfloat16 are
 * made in float and rounded once. */
void mp_cpu_rows_reduce(const mp_row_entries *rows, const uint64_t *sorted, mp_index_reduction how, mp_dtype dtype, void *table,
                        const void *other);
/* into[into_at + k * into_stride] is reduced with values[at + k * stride], for k < n; of any type that can be. */
void mp_cpu_reduce(mp_index_reduction how, mp_dtype dtype, int64_t n, void *into, int64_t into_at, int64_t into_stride,
                   const void *values, int64_t at, int64_t stride);
