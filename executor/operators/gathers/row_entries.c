/* row_entries.c - describes rows that are named along one axis, or by tuples of indices. */
#include "executor/operators/gathers/row_entries.h"

static void grid_put(mp_grid *g, int64_t dim, int64_t stride)
{
    int last = g->rank - 1;
    if (dim == 1) return;
    if (g->rank && g->strides[last] == stride * dim) {
        g->dims[last] *= dim;
        g->strides[last] = stride;
        return;
    }
    g->dims[g->rank] = dim;
    g->strides[g->rank++] = stride;
}

static mp_status check_counts(const mp_operands *x, const mp_row_entries *rows, mp_error *err)
{
    if (rows->n_rows > UINT32_MAX || rows->n_entries > UINT32_MAX) return MP_NO_KERNEL(x, err, "a table or list so long");
    return MP_OK;
}

mp_status mp_rows_along(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, int n_entry_dims,
                        mp_row_entries *rows, mp_error *err)
{
    *rows = (mp_row_entries){.n_rows = table->dims[axis], .n_entries = 1, .read_rank = 1, .read_dims = {table->dims[axis]}};
    grid_put(&rows->named, table->dims[axis], table->strides[axis]);
    for (int d = axis; d < axis + n_entry_dims; d++) {
        grid_put(&rows->entries, other->dims[d], other->strides[d]);
        rows->n_entries *= other->dims[d];
    }
    rows->per_batch = rows->n_entries;
    for (int d = 0; d < table->rank; d++)
        if (d != axis)
            mp_box_put(&rows->frame, table->dims[d], table->strides[d], other->strides[d < axis ? d : d + n_entry_dims - 1]);
    mp_box_settle(&rows->frame);
    return check_counts(x, rows, err);
}

mp_status mp_rows_by_tuple(const mp_operands *x, const mp_array *table, const mp_array *other, int batch, int length,
                           int n_entry_dims, mp_row_entries *rows, mp_error *err)
{
    *rows = (mp_row_entries){.n_rows = 1, .n_entries = 1, .per_batch = 1, .first = batch, .read_rank = length};
    for (int d = 0; d < batch + length; d++) {
        grid_put(&rows->named, table->dims[d], table->strides[d]);
        rows->n_rows *= table->dims[d];
        if (d >= batch) rows->read_dims[d - batch] = table->dims[d];
    }
    for (int d = 0; d < n_entry_dims; d++) {
        grid_put(&rows->entries, other->dims[d], other->strides[d]);
        rows->n_entries *= other->dims[d];
        if (d >= batch) rows->per_batch *= other->dims[d];
    }
    for (int d = batch + length; d < table->rank; d++)
        mp_box_put(&rows->frame, table->dims[d], table->strides[d], other->strides[d - batch - length + n_entry_dims]);
    mp_box_settle(&rows->frame);
    return check_counts(x, rows, err);
}

int64_t mp_rows_list_bytes(const mp_row_entries *rows)
{
    return rows->n_entries * (int64_t)sizeof(uint64_t);
}

int64_t mp_rows_sorted_bytes(const mp_row_entries *rows)
{
    return 2 * mp_rows_list_bytes(rows);
}
