/* row_entries.h - a list whose entries each belong to a row of a table, for every backend: where the rows are, and where the
 * entries.
 *
 * Backends read the rows of the entries from the indices, and copy row by row. Where several entries meet in one row they are
 * sorted by row and then entry, and are summed in that order; so results do not depend on the number of threads.
 */
#pragma once

#include "executor/operators/copies/box.h"
#include "executor/operators/gathers/indices.h"

/* Dimensions of one side, and their strides; an index over all of them is unravelled to a place. */
typedef struct mp_grid {
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];
} mp_grid;

MP_INLINE int64_t mp_grid_place(const mp_grid *g, int64_t index)
{
    int64_t at = 0;
    for (int d = g->rank - 1; d > 0; d--) {
        at += index % g->dims[d] * g->strides[d];
        index /= g->dims[d];
    }
    return g->rank ? at + index * g->strides[0] : 0;
}

typedef struct mp_row_entries {
    mp_grid named;   /* of the table: an index over it is a row */
    mp_grid entries; /* of the other array */
    int first;       /* coordinates that an entry's place in its batch gives; the rest are read */
    int64_t n_rows, n_entries;
    int64_t per_batch; /* entries */
    int read_rank;     /* how many coordinates are read per entry */
    int64_t read_dims[MP_ARRAY_RANK];
    mp_box frame; /* one row, settled; from: the table, to: the other array */
} mp_row_entries;

/* Rows that indices name along one axis: dimensions [axis, axis + rank of indices) of `other` are the entries. */
mp_status mp_rows_along(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, int n_entry_dims,
                        mp_row_entries *rows, mp_error *err);
/* Rows that tuples of `length` indices name behind `batch` dimensions of the table. */
mp_status mp_rows_by_tuple(const mp_operands *x, const mp_array *table, const mp_array *other, int batch, int length,
                           int n_entry_dims, mp_row_entries *rows, mp_error *err);

/* Entries then name their row by one index, which counts all rows. */
static inline void mp_rows_by_number(mp_row_entries *rows)
{
    rows->first = 0;
    rows->read_rank = 1;
    rows->read_dims[0] = rows->n_rows;
    rows->per_batch = rows->n_entries;
}

/* Bytes of a list of entries, one 64-bit word each: row << 32 | entry; in the order of entries, and with room to sort it. */
int64_t mp_rows_list_bytes(const mp_row_entries *rows);
int64_t mp_rows_sorted_bytes(const mp_row_entries *rows);
