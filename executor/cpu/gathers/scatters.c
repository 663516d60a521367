/* gather_scatters.c - GatherElements, ScatterElements (Scatter), ScatterND.
 *
 * Forward scattering copies the data and lets the updates meet it; where several updates name one element, they do so in their
 * order (without a reduction the last one stays). Gradients exist for plain scattering and for adding: the updates' is
 * gathered, the data's is the output's, with zeros where an update took the place.
 */
#include <string.h>

#include "executor/operators/gathers/row_entries.h"
#include "executor/operators/moves/moving.h"

static int axis_of(const mp_operands *x)
{
    return mp_moving_axis(x, 0, x->in[0].rank);
}

/* Besides the axis, indices lie within the data; `other` has their shape. */
static mp_status check_lines(const mp_operands *x, const mp_array *table, const mp_array *indices, const mp_array *other,
                             mp_error *err)
{
    mp_status st = MP_OK;
    MP_REQUIRE(indices->rank == table->rank && other->rank == table->rank, err, MP_INVALID,
               "%s ('%s'): data, indices and updates differ in rank", x->op->kind, x->op->name);
    for (int d = 0; d < table->rank; d++)
        MP_REQUIRE(other->dims[d] == indices->dims[d] && (d == axis_of(x) || indices->dims[d] <= table->dims[d]), err,
                   MP_INVALID, "%s ('%s'): dimension %d of the indices does not fit", x->op->kind, x->op->name, d);
done:
    return st;
}

static void copy_array(const mp_array *from, const mp_array *to)
{
    mp_box box = {0};
    if (from->data == to->data && mp_array_same_layout(from, to)) return;
    for (int d = 0; d < to->rank; d++) mp_box_put(&box, to->dims[d], from->strides[d], to->strides[d]);
    mp_box_copy(&box, mp_dtype_bits(to->dtype) / 8, from->data, to->data);
}

static mp_status run_gather_elements(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_array *table = x->is_backward ? &x->d_in[0] : &x->in[0], *other = x->is_backward ? &x->d_out[0] : &x->out[0];
    mp_index_lines lines = {table, other, &x->in[1], axis_of(x)};
    (void)call, (void)run;
    MP_TRY(mp_lines_check(&lines, x, err));
    if (!x->is_backward) {
        mp_lines_gather(&lines);
    } else {
        if (!(x->adds & 1)) mp_fill_zero(table);
        mp_lines_meet(&lines, MP_MEET_ADD);
    }
done:
    return st;
}

mp_status mp_prepare_gather_elements(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    MP_TRY(mp_check_picking(x, 1, err));
    MP_TRY(check_lines(x, &x->in[0], &x->in[1], &x->out[0], err));
    call->run = run_gather_elements;
    call->adds = x->adds & 1;
done:
    return st;
}

static mp_array rescued(const mp_scatter *s, const mp_operands *x, int i)
{
    mp_array a = mp_scatter_operand(s, x, i);
    if (a.data != x->in[i].data) memcpy(a.data, x->in[i].data, (size_t)mp_array_bytes(&a));
    return a;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_scatter *s = call->state;
    const mp_array *out = &x->out[0];
    mp_array data = rescued(s, x, 0), indices = rescued(s, x, 1), updates = rescued(s, x, 2);
    mp_index_lines lines = {out, &updates, &indices, s->axis};
    (void)run;
    if (s->by_rows)
        MP_TRY(mp_rows_read(&s->rows, x, &indices, x->workspace, err));
    else
        MP_TRY(mp_lines_check(&lines, x, err));
    copy_array(&data, out);
    if (s->by_rows)
        mp_rows_meet(&s->rows, mp_rows_sort(&s->rows, x->workspace), s->how, out->dtype, out->data, updates.data);
    else
        mp_lines_meet(&lines, s->how);
done:
    return st;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_scatter *s = call->state;
    const mp_array *d_out = &x->d_out[0], *d_data = &x->d_in[0], *d_updates = &x->d_in[2];
    bool data = x->from <= 0 && d_data->dtype, updates = x->from <= 2 && x->to > 2 && d_updates->dtype;
    bool clears = data && s->how == MP_MEET_SET;
    mp_index_lines from = {d_out, d_updates, &x->in[1], s->axis}, clear = {d_data, &x->in[1], &x->in[1], s->axis};
    (void)run;
    if (s->by_rows)
        MP_TRY(mp_rows_read(&s->rows, x, &x->in[1], x->workspace, err));
    else
        MP_TRY(mp_lines_check(&clear, x, err));
    if (updates && s->by_rows)
        mp_rows_gather(&s->rows, x->workspace, mp_dtype_bits(d_out->dtype) / 8, d_out->data, d_updates->data);
    else if (updates)
        mp_lines_gather(&from);
    if (data) copy_array(d_out, d_data);
    if (clears && s->by_rows)
        mp_rows_meet(&s->rows, mp_rows_sort(&s->rows, x->workspace), MP_MEET_SET, d_data->dtype, d_data->data, NULL);
    else if (clears)
        mp_lines_clear(&clear);
done:
    return st;
}

/* Room for the operands that may lie where the output will. */
static mp_status plan_rescues(const mp_operands *x, mp_scatter *s, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    for (int i = 0; i < 3; i++) {
        s->rescue_at[i] = -1;
        if (x->is_backward || mp_array_bytes(&x->in[i]) != mp_array_bytes(&x->out[0])) continue;
        if (i == 0 && mp_array_same_layout(&x->in[0], &x->out[0])) continue;
        MP_REQUIRE(mp_round_up(call->workspace_bytes, 64, &s->rescue_at[i]) &&
                       mp_add(s->rescue_at[i], mp_array_bytes(&x->in[i]), &call->workspace_bytes),
                   err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    }
done:
    return st;
}

static mp_status prepare(const mp_operands *x, const mp_scatter *described, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_scatter *s = NULL;
    mp_meeting how;
    MP_TRY(mp_check_picking(x, 1, err));
    MP_REQUIRE(mp_meeting_of(x->op, &how), err, MP_UNSUPPORTED, "%s ('%s'): reduction '%s' is not supported here", x->op->kind,
               x->op->name, mp_operator_text(x->op, "reduction", ""));
    if (x->in[0].dtype != x->in[2].dtype || !mp_meeting_knows(how, x->in[0].dtype)) {
        st = MP_NO_KERNEL(x, err, "a reduction of this type");
        goto done;
    }
    if (x->is_backward && how != MP_MEET_SET && how != MP_MEET_ADD) {
        st = MP_NO_KERNEL(x, err, "the gradient of this reduction");
        goto done;
    }
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    *s = *described;
    s->how = how;
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    call->workspace_bytes = s->by_rows ? mp_rows_sorted_bytes(&s->rows) : 0;
    MP_TRY(plan_rescues(x, s, call, err));
done:
    return st;
}

mp_status mp_prepare_scatter_elements(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_scatter s = {.axis = axis_of(x)};
    MP_TRY(check_lines(x, &x->in[0], &x->in[1], &x->in[2], err));
    MP_TRY(prepare(x, &s, call, err));
done:
    return st;
}

/* The table is the output forward; backward its gradient, from which the updates' is gathered and as which the data's lies. */
mp_status mp_prepare_scatter_nd(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_array *indices = &x->in[1], *updates = &x->in[2], *table = mp_moving_out(x, 0);
    int tuple = indices->rank - 1;
    mp_scatter s = {.by_rows = true};
    MP_REQUIRE(tuple >= 0 && indices->dims[tuple] <= table->rank && updates->rank == tuple + table->rank - indices->dims[tuple],
               err, MP_INVALID, "%s ('%s'): data, indices and updates do not fit together", x->op->kind, x->op->name);
    for (int d = 0; d < updates->rank; d++)
        MP_REQUIRE(updates->dims[d] == (d < tuple ? indices->dims[d] : table->dims[d - tuple + indices->dims[tuple]]), err,
                   MP_INVALID, "%s ('%s'): dimension %d of the updates does not fit", x->op->kind, x->op->name, d);
    if (x->is_backward && x->d_in[0].dtype && !mp_array_same_layout(&x->d_in[0], table)) {
        st = MP_NO_KERNEL(x, err, "a gradient in another layout");
        goto done;
    }
    MP_TRY(mp_rows_by_tuple(x, table, updates, 0, (int)indices->dims[tuple], tuple, &s.rows, err));
    MP_TRY(prepare(x, &s, call, err));
done:
    return st;
}
