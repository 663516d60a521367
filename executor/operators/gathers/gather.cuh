/* gather.cuh - finds the row of a table that an index entry selects, and combines one element with another. */
#pragma once

#include "executor/operators/copies/box.cuh"

extern "C" {
#include "executor/operators/gathers/index_plan.h"
}

struct mp_row_reader {
    int first, read_rank;
    int64_t per_batch, read_dims[MP_ARRAY_RANK];
    const void *indices;
    mp_dtype dtype;

    mp_row_reader(const mp_row_entries *rows, const mp_array *from)
        : first(rows->first), read_rank(rows->read_rank), per_batch(rows->per_batch), indices(from->data), dtype(from->dtype)
    {
        for (int d = 0; d < MP_ARRAY_RANK; d++) read_dims[d] = rows->read_dims[d];
    }
    /* Returns the row of the table that an entry of the index list selects; -1: an index is outside of its axis. */
    MP_BODY int64_t row(int64_t entry) const
    {
        int64_t row = first ? entry / per_batch : 0;
        for (int d = 0; d < read_rank; d++) {
            const int64_t index = mp_index_of(indices, dtype, entry * read_rank + d), n = read_dims[d];
            if (index < -n || index >= n) return -1;
            row = row * n + (index < 0 ? index + n : index);
        }
        return row;
    }
};

/* Combines an element of the table with an element of `other` (gathered elements or updates), for FLOAT, BFLOAT16 and
 * integers. */
MP_BODY void mp_element_reduce(mp_index_reduction how, void *table, mp_dtype dtype, int64_t at, const void *other,
                               mp_dtype other_dtype, int64_t other_at)
{
    if (dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16) {
        const float a = mp_load_any(table, dtype, at), b = mp_load_any(other, other_dtype, other_at);
        mp_store_any(table, dtype, at, MP_INDEX_REDUCE(how, float, float, a, b));
    } else {
        const int64_t a = mp_load_any_whole(table, dtype, at), b = mp_load_any_whole(other, other_dtype, other_at);
        mp_store_any_whole(table, dtype, at, MP_INDEX_REDUCE(how, int64_t, uint64_t, a, b));
    }
}
