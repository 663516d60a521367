/* row_sort_cuda.h - entries sorted by the row that they name, digit by digit and stable; time linear in the entries, for each 6
 * bits of the number of rows. Only enqueues.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/gathers/index_plan.h"

/* The list of entries (row << 32 | entry), sorted by row; those that name none are of row n_rows. It lies in the room, of
 * mp_cuda_rows_sort_room bytes. */
const uint64_t *mp_cuda_rows_sort(const mp_row_entries *rows, const mp_array *indices, void *room);
int64_t mp_cuda_rows_sort_room(const mp_row_entries *rows);

MP_C_END
