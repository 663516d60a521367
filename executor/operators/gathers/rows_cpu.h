/* rows_cpu.h - rows of a table by a list of entries (row_entries.h), on the CPU. Private to executor/cpu/.
 *
 * A row is brought up to date by one thread, in the order of its entries.
 */
#pragma once

#include "executor/operators/gathers/meeting.h"
#include "executor/operators/gathers/row_entries.h"

/* Reads the indices (INT64 or INT32, dense) into a list of mp_rows_list_bytes, in the order of entries. MP_INVALID names the
 * index that lies outside. */
mp_status mp_cpu_rows_read(const mp_row_entries *rows, const mp_operands *x, const mp_array *indices, uint64_t *list,
                           mp_error *err);
/* Sorts a list of mp_rows_sorted_bytes, of which it fills the first half, by row; returns the sorted list, in one of the
 * two halves. O(entries) for each 11 bits of the number of rows. */
const uint64_t *mp_cpu_rows_sort(const mp_row_entries *rows, uint64_t *list);

/* other[entry] = table[row]. */
void mp_cpu_rows_gather(const mp_row_entries *rows, const uint64_t *list, int size, const void *table, void *other);
/* table[row] meets other[entry], over a sorted list. With `other` NULL rows are set to zero. Sums of bfloat16 are made in float
 * and rounded once. */
void mp_cpu_rows_meet(const mp_row_entries *rows, const uint64_t *sorted, mp_meeting how, mp_dtype dtype, void *table,
                      const void *other);
