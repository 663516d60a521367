/* scatters.c - Scatter, ScatterElements, ScatterND: copies the data and lets the updates meet it. */
#include "executor/operators/gathers/scatters.h"

#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/gathers/lines.h"
#include "executor/cpu/gathers/rows.h"
#include "executor/cpu/moves/strided_copy.h"

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
    uint64_t *list = (uint64_t *)((char *)x->workspace + s->own_at);
    (void)run;
    if (s->by_rows)
        MP_TRY(mp_cpu_rows_read(&s->rows, x, &indices, list, err));
    else
        MP_TRY(mp_cpu_lines_check(&lines, x, err));
    mp_cpu_array_copy(&data, out);
    if (s->by_rows)
        mp_cpu_rows_meet(&s->rows, mp_cpu_rows_sort(&s->rows, list), s->how, out->dtype, out->data, updates.data);
    else
        mp_cpu_lines_meet(&lines, s->how);
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
    uint64_t *list = (uint64_t *)((char *)x->workspace + s->own_at);
    (void)run;
    if (s->by_rows)
        MP_TRY(mp_cpu_rows_read(&s->rows, x, &x->in[1], list, err));
    else
        MP_TRY(mp_cpu_lines_check(&from, x, err)); /* the data may have no gradient */
    if (updates && s->by_rows)
        mp_cpu_rows_gather(&s->rows, list, mp_dtype_bits(d_out->dtype) / 8, d_out->data, d_updates->data);
    else if (updates)
        mp_cpu_lines_gather(&from);
    if (data) mp_cpu_array_copy(d_out, d_data);
    if (clears && s->by_rows)
        mp_cpu_rows_meet(&s->rows, mp_cpu_rows_sort(&s->rows, list), MP_MEET_SET, d_data->dtype, d_data->data, NULL);
    else if (clears)
        mp_cpu_lines_clear(&clear);
done:
    return st;
}

static mp_status finish(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_scatter *s = call->state;
    mp_status st = MP_OK;
    call->run = x->is_backward ? run_backward : run_forward;
    MP_REQUIRE(!s->by_rows || mp_add(call->workspace_bytes, mp_rows_sorted_bytes(&s->rows), &call->workspace_bytes), err,
               MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
done:
    return st;
}

static mp_status prepare_elements(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = mp_scatter_elements_prepare(x, call, err);
    return st == MP_OK ? finish(x, call, err) : st;
}

static mp_status prepare_nd(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = mp_scatter_nd_prepare(x, call, err);
    return st == MP_OK ? finish(x, call, err) : st;
}

const mp_kernel mp_cpu_scatters[] = {
    {"Scatter", "", prepare_elements, prepare_elements},
    {"ScatterElements", "", prepare_elements, prepare_elements},
    {"ScatterND", "", prepare_nd, prepare_nd},
    {0},
};
