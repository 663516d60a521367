/* scatters_cpu.c - Scatter, ScatterElements, ScatterND: copies the data and lets the updates meet it. */
#include "executor/operators/gathers/scatters.h"

#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/copies/strided_copy_cpu.h"
#include "executor/operators/gathers/lines_cpu.h"
#include "executor/operators/gathers/rows_cpu.h"
#include "executor/operators/gathers/scatter_shares.h"

static mp_array rescued(const mp_scatter *s, const mp_operands *x, int i)
{
    mp_array a = mp_scatter_operand(s, x, i);
    if (a.data != x->in[i].data) memcpy(a.data, x->in[i].data, (size_t)mp_array_bytes(&a));
    return a;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_scatter *s = call->state;
    const mp_array *out = &x->out[0];
    mp_array data = rescued(s, x, 0), indices = rescued(s, x, 1), updates = rescued(s, x, 2);
    mp_index_lines lines = {out, &updates, &indices, s->axis};
    uint64_t *list = (uint64_t *)((char *)x->workspace + s->own_at);
    (void)run;
    if (s->by_rows)
        MP_CHECK(mp_cpu_rows_read(&s->rows, x, &indices, list, err));
    else
        MP_CHECK(mp_cpu_lines_check(&lines, x, err));
    mp_cpu_array_copy(&data, out);
    if (s->by_rows)
        mp_cpu_rows_meet(&s->rows, mp_cpu_rows_sort(&s->rows, list), s->how, out->dtype, out->data, updates.data);
    else
        mp_cpu_lines_meet(&lines, s->how);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_scatter *s = call->state;
    const mp_array *d_out = &x->d_out[0], *d_data = &x->d_in[0], *d_updates = &x->d_in[2];
    bool data = x->from <= 0 && d_data->dtype, updates = x->from <= 2 && x->to > 2 && d_updates->dtype;
    bool clears = data && s->how == MP_MEET_SET;
    mp_index_lines from = {d_out, d_updates, &x->in[1], s->axis}, clear = {d_data, &x->in[1], &x->in[1], s->axis};
    uint64_t *list = (uint64_t *)((char *)x->workspace + s->own_at);
    (void)run;
    if (s->by_rows)
        MP_CHECK(mp_cpu_rows_read(&s->rows, x, &x->in[1], list, err));
    else
        MP_CHECK(mp_cpu_lines_check(&from, x, err)); /* the data may have no gradient */
    if (updates && s->by_rows)
        mp_cpu_rows_gather(&s->rows, list, mp_dtype_bits(d_out->dtype) / 8, d_out->data, d_updates->data);
    else if (updates)
        mp_cpu_lines_gather(&from);
    if (data) mp_cpu_array_copy(d_out, d_data);
    if (clears && s->by_rows)
        mp_cpu_rows_meet(&s->rows, mp_cpu_rows_sort(&s->rows, list), MP_MEET_SET, d_data->dtype, d_data->data, NULL);
    else if (clears)
        mp_cpu_lines_clear(&clear);
    return MP_OK;
}

/* ---- The gradients of the largest, the smallest, the product */

typedef struct sharing {
    const mp_scatter *s;
    const mp_operands *x;
    mp_scatter_parts parts;
} sharing;

static void take_parts(const sharing *h, const mp_array *factors, const mp_array *parts)
{
    const int64_t n = mp_array_elements(factors);
    for (int64_t k = 0; k < n; k++)
        ((float *)parts->data)[k] = mp_scatter_part(h->s->how, mp_load_float(factors->data, factors->dtype, k));
}

static void mark(const sharing *h, const mp_array *factors, const mp_array *results, const mp_array *marks)
{
    const int64_t n = mp_array_elements(factors);
    for (int64_t k = 0; k < n; k++)
        ((float *)marks->data)[k] =
            mp_scatter_mark(h->s->how, mp_load_float(factors->data, factors->dtype, k), ((const float *)results->data)[k]);
}

static void share(const sharing *h, const mp_array *factors, const mp_array *results, const mp_array *dy, const mp_array *marks,
                  const mp_array *gradient)
{
    const int64_t n = mp_array_elements(factors);
    for (int64_t k = 0; k < n; k++)
        mp_store_float(gradient->data, gradient->dtype, k,
                       mp_scatter_share(h->s->how, mp_load_float(factors->data, factors->dtype, k),
                                        ((const float *)results->data)[k], mp_load_float(dy->data, dy->dtype, k),
                                        ((const float *)marks->data)[k]));
}

static void gather(const sharing *h, const uint64_t *list, const mp_array *table, const mp_array *to)
{
    const mp_index_lines lines = {table, to, &h->x->in[1], h->s->axis};
    if (h->s->by_rows)
        mp_cpu_rows_gather(&h->s->rows, list, mp_dtype_bits(table->dtype) / 8, table->data, to->data);
    else
        mp_cpu_lines_gather(&lines);
}

static void meet(const sharing *h, const uint64_t *sorted, mp_meeting how, const mp_array *table, const mp_array *from)
{
    const mp_index_lines lines = {table, from, &h->x->in[1], h->s->axis};
    if (h->s->by_rows)
        mp_cpu_rows_meet(&h->s->rows, sorted, how, table->dtype, table->data, from->data);
    else
        mp_cpu_lines_meet(&lines, how);
}

static mp_status run_shares(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_scatter *s = call->state;
    const sharing h = {s, x, mp_scatter_parts_of(s, x)};
    const mp_scatter_parts *p = &h.parts;
    const mp_array *dy = &x->d_out[0], *d_data = &x->d_in[0], *d_updates = &x->d_in[2];
    const bool data = x->from <= 0 && d_data->dtype, updates = x->from <= 2 && x->to > 2 && d_updates->dtype;
    const mp_index_lines checked = {&x->in[0], &x->in[2], &x->in[1], s->axis};
    uint64_t *list = (uint64_t *)((char *)x->workspace + s->own_at), *copy = list;
    const uint64_t *sorted = NULL;
    (void)run;
    if (s->by_rows) {
        MP_CHECK(mp_cpu_rows_read(&s->rows, x, &x->in[1], list, err));
        copy = list + s->rows.n_entries;
        memcpy(copy, list, (size_t)mp_rows_list_bytes(&s->rows));
        sorted = mp_cpu_rows_sort(&s->rows, copy);
    } else {
        MP_CHECK(mp_cpu_lines_check(&checked, x, err));
    }
    take_parts(&h, &x->in[0], &p->results);
    take_parts(&h, &x->in[2], &p->update_parts);
    meet(&h, sorted, s->how, &p->results, &p->update_parts);
    gather(&h, list, &p->results, &p->update_results);
    mark(&h, &x->in[0], &p->results, &p->marks);
    mark(&h, &x->in[2], &p->update_results, &p->update_marks);
    meet(&h, sorted, MP_MEET_ADD, &p->marks, &p->update_marks);
    if (data) share(&h, &x->in[0], &p->results, dy, &p->marks, d_data);
    if (!updates) return MP_OK;
    gather(&h, list, dy, &p->update_dy);
    gather(&h, list, &p->marks, &p->update_marks);
    share(&h, &x->in[2], &p->update_results, &p->update_dy, &p->update_marks, d_updates);
    return MP_OK;
}

static mp_status finish(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_scatter *s = call->state;
    const bool shares = s->how != MP_MEET_SET && s->how != MP_MEET_ADD;
    call->run = !x->is_backward ? run_forward : shares ? run_shares : run_backward;
    if (!s->by_rows) return MP_OK;
    MP_ENSURE(
        mp_add(call->workspace_bytes, mp_rows_sorted_bytes(&s->rows), &call->workspace_bytes) &&
            (call->run != run_shares || mp_add(call->workspace_bytes, mp_rows_list_bytes(&s->rows), &call->workspace_bytes)),
        err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    return MP_OK;
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
    {"Scatter", "", prepare_elements, prepare_elements}, {"ScatterElements", "", prepare_elements, prepare_elements},
    {"ScatterND", "", prepare_nd, prepare_nd},           {"ScatterElements", "memplan", prepare_elements, prepare_elements},
    {"ScatterND", "memplan", prepare_nd, prepare_nd},    {0},
};
