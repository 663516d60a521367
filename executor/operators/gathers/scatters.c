/* scatters.c - describes where updates go, and which operands have to be saved first. */
#include "executor/operators/gathers/scatters.h"

/* Room for the operands that may lie where the output will. */
static mp_status plan_rescues(const mp_operands *x, mp_scatter *s, mp_call *call, mp_error *err)
{
    for (int i = 0; i < 3; i++) {
        s->rescue_at[i] = -1;
        if (x->is_backward || mp_array_bytes(&x->in[i]) != mp_array_bytes(&x->out[0])) continue;
        if (i == 0 && mp_array_same_layout(&x->in[0], &x->out[0])) continue;
        MP_ENSURE(mp_round_up(call->workspace_bytes, 64, &s->rescue_at[i]) &&
                      mp_add(s->rescue_at[i], mp_array_bytes(&x->in[i]), &call->workspace_bytes),
                  err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    }
    MP_ENSURE(mp_round_up(call->workspace_bytes, 64, &s->own_at), err, MP_INVALID, "%s ('%s') needs too much workspace",
              x->op->kind, x->op->name);
    call->workspace_bytes = s->own_at;
    return MP_OK;
}

/* Elements are gone through in the order of memory. */
static bool shares_fit(const mp_operands *x)
{
    const mp_array *table = &x->in[0], *updates = &x->in[2];
    return mp_array_same_layout(&x->d_out[0], table) && (!x->d_in[0].dtype || mp_array_same_layout(&x->d_in[0], table)) &&
           (!x->d_in[2].dtype || mp_array_same_layout(&x->d_in[2], updates));
}

static mp_status plan_shares(const mp_operands *x, mp_scatter *s, mp_call *call, mp_error *err)
{
    int64_t table, updates, bytes;
    s->shares_at = s->own_at;
    MP_ENSURE(mp_multiply(mp_array_elements(&x->in[0]), 2 * (int64_t)sizeof(float), &table) &&
                  mp_multiply(mp_array_elements(&x->in[2]), 4 * (int64_t)sizeof(float), &updates) &&
                  mp_add(table, updates, &bytes) && mp_add(bytes, s->shares_at, &bytes) && mp_round_up(bytes, 64, &s->own_at),
              err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    call->workspace_bytes = s->own_at;
    return MP_OK;
}

mp_scatter_parts mp_scatter_parts_of(const mp_scatter *s, const mp_operands *x)
{
    mp_scatter_parts p = {x->in[0], x->in[0], x->in[2], x->in[2], x->in[2], x->in[2]};
    mp_array *const all[] = {&p.results, &p.marks, &p.update_results, &p.update_marks, &p.update_parts, &p.update_dy};
    float *at = (float *)((char *)x->workspace + s->shares_at);
    for (int k = 0; k < 6; k++) {
        all[k]->dtype = MP_DTYPE_FLOAT;
        all[k]->data = at;
        at += mp_array_elements(all[k]);
    }
    p.update_dy.dtype = x->d_out[0].dtype;
    return p;
}

static mp_status prepare(const mp_operands *x, const mp_scatter *described, mp_call *call, mp_error *err)
{
    mp_scatter *s = NULL;
    mp_meeting how;
    bool shares;
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_ENSURE(mp_meeting_of(x->op, &how), err, MP_UNSUPPORTED, "%s ('%s'): reduction '%s' is not supported here", x->op->kind,
              x->op->name, mp_operator_text(x->op, "reduction", ""));
    if (x->in[0].dtype != x->in[2].dtype || !mp_meeting_knows(how, x->in[0].dtype)) {
        return MP_NO_KERNEL(x, err, "a reduction of this type");
    }
    shares = x->is_backward && how != MP_MEET_SET && how != MP_MEET_ADD;
    if (shares && !*x->op->domain) { /* its row lets backward see too little */
        return MP_NO_KERNEL(x, err, "the gradient of this reduction");
    }
    if (shares && !shares_fit(x)) {
        return MP_NO_KERNEL(x, err, "a gradient in another layout");
    }
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    *s = *described;
    s->how = how;
    call->state = s;
    MP_CHECK(plan_rescues(x, s, call, err));
    if (shares) MP_CHECK(plan_shares(x, s, call, err));
    return MP_OK;
}

mp_status mp_scatter_elements_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_index_lines lines = {&x->in[0], &x->in[2], &x->in[1], mp_operands_axis(x, 0, x->in[0].rank)};
    mp_scatter s = {.axis = lines.axis};
    MP_CHECK(mp_index_lines_check(&lines, x, err));
    return prepare(x, &s, call, err);
}

/* The table is the output forward; backward its gradient, from which the updates' is gathered and as which the data's lies. */
mp_status mp_scatter_nd_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *indices = &x->in[1], *updates = &x->in[2], *table = mp_operands_out(x, 0);
    int tuple = indices->rank - 1;
    mp_scatter s = {.by_rows = true};
    MP_ENSURE(tuple >= 0 && indices->dims[tuple] <= table->rank && updates->rank == tuple + table->rank - indices->dims[tuple],
              err, MP_INVALID, "%s ('%s'): data, indices and updates do not fit together", x->op->kind, x->op->name);
    for (int d = 0; d < updates->rank; d++)
        MP_ENSURE(updates->dims[d] == (d < tuple ? indices->dims[d] : table->dims[d - tuple + indices->dims[tuple]]), err,
                  MP_INVALID, "%s ('%s'): dimension %d of the updates does not fit", x->op->kind, x->op->name, d);
    if (x->is_backward && x->d_in[0].dtype && !mp_array_same_layout(&x->d_in[0], table)) {
        return MP_NO_KERNEL(x, err, "a gradient in another layout");
    }
    MP_CHECK(mp_rows_by_tuple(x, table, updates, 0, (int)indices->dims[tuple], tuple, &s.rows, err));
    return prepare(x, &s, call, err);
}
