/* index_plan.c - describes the rows of a table that indices select, along one axis or by tuples, and checks the operands. */
#include "executor/operators/gathers/index_plan.h"

mp_status mp_indices_check(const mp_operands *x, int indices, mp_error *err)
{
    for (int i = 0; i < x->n_in; i++)
        if (x->in[i].packed || (x->in[i].dtype && mp_dtype_bits(x->in[i].dtype) < 8))
            return MP_NO_KERNEL(x, err, "an operand of this type or layout");
    if (x->out[0].packed) return MP_NO_KERNEL(x, err, "a packed output");
    if (indices >= 0) {
        const mp_array *a = &x->in[indices];
        if (a->dtype != MP_DTYPE_INT64 && a->dtype != MP_DTYPE_INT32) return MP_NO_KERNEL(x, err, "indices of this type");
        if (!mp_array_is_plain(a)) return MP_NO_KERNEL(x, err, "a layout of indices that is not plain");
    }
    for (int i = x->from; x->is_backward && i < x->to; i++) {
        const mp_array *d = &x->d_in[i];
        if (!d->dtype) continue;
        if (!mp_is_real(d->dtype) || x->d_out[0].dtype != d->dtype || d->packed)
            return MP_NO_KERNEL(x, err, "a gradient of this type or layout");
    }
    return MP_OK;
}

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
    if (rows->n_rows > UINT32_MAX || rows->n_entries > UINT32_MAX)
        return MP_NO_KERNEL(x, err, "a table or list of this length");
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

mp_status mp_index_elements_check(const mp_operands *x, const mp_array *table, const mp_array *other, int axis, mp_error *err)
{
    const mp_array *indices = &x->in[1];
    MP_ENSURE(indices->rank == table->rank && other->rank == table->rank, err, MP_INVALID,
              "%s ('%s'): data, indices and updates differ in rank", x->op->kind, x->op->name);
    for (int d = 0; d < table->rank; d++)
        MP_ENSURE(other->dims[d] == indices->dims[d] && (d == axis || indices->dims[d] <= table->dims[d]), err, MP_INVALID,
                  "%s ('%s'): dimension %d of the indices does not match the data", x->op->kind, x->op->name, d);
    return MP_OK;
}

mp_status mp_index_plan_workspace(const mp_operands *x, const mp_index_plan *plan, mp_index_reduction how, mp_dtype dtype,
                                  mp_call *call, int64_t *at, mp_error *err)
{
    MP_ENSURE(mp_round_up(call->workspace_bytes, 64, at) &&
                  mp_add(*at, plan->by->room(plan, how, dtype), &call->workspace_bytes),
              err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    return MP_OK;
}
