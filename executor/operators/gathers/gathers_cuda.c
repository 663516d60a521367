/* gathers_cuda.c - the table of operators that pick or place elements by index on the GPU: described by operators/gathers. */
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/elementwise/elementwise_cuda.h"
#include "executor/operators/gathers/index_lines_cuda.h"
#include "executor/operators/gathers/picks.h"
#include "executor/operators/gathers/rows_cuda.h"
#include "executor/operators/gathers/scatter_shares_cuda.h"
#include "executor/operators/gathers/scatters.h"
#include "executor/operators/gathers/sequences.h"
#include "executor/operators/gathers/sequences_cuda.h"

enum { ALIGNMENT = 64 };

static int size_of(const mp_array *a)
{
    return mp_dtype_bits(a->dtype) / 8;
}

/* Puts `bytes` behind the workspace there is. */
static mp_status add_room(const mp_operands *x, int64_t bytes, mp_call *call, mp_error *err)
{
    MP_ENSURE(mp_round_up(call->workspace_bytes, ALIGNMENT, &call->workspace_bytes) && mp_round_up(bytes, ALIGNMENT, &bytes) &&
                  mp_add(call->workspace_bytes, bytes, &call->workspace_bytes),
              err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind, x->op->name);
    return MP_OK;
}

/* ---- Gather, GatherND, Compress, MaxUnpool */

static void pick(const mp_operands *x, const mp_row_entries *rows, const mp_array *indices, void *room)
{
    if (!x->is_backward) {
        mp_cuda_rows_gather(rows, indices, size_of(&x->out[0]), x->in[0].data, x->out[0].data);
    } else {
        if (!(x->adds & 1)) mp_cuda_array_zero(&x->d_in[0]);
        mp_cuda_rows_meet(rows, indices, MP_MEET_ADD, x->d_in[0].dtype, x->d_in[0].data, x->d_out[0].data, room);
    }
}

static mp_status run_gather(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_pick *p = call->state;
    (void)run;
    pick(x, &p->rows, &x->in[1], x->workspace);
    return mp_cuda_launched(err);
}

static int64_t pick_room(const mp_operands *x, const mp_pick *p)
{
    return x->is_backward ? mp_cuda_rows_room(&p->rows, MP_MEET_ADD, x->d_in[0].dtype) : 0;
}

static mp_status prepare_pick(const mp_operands *x, mp_prepare describe, mp_call *call, mp_error *err)
{
    mp_status st = describe(x, call, err);
    call->run = run_gather;
    if (st == MP_OK) call->workspace_bytes = pick_room(x, call->state);
    return st;
}

static mp_status prepare_gather(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_pick(x, mp_gather_prepare, call, err);
}
static mp_status prepare_gather_nd(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_pick(x, mp_gather_nd_prepare, call, err);
}

/* The list of what the condition takes lies behind the rest of the workspace. */
static mp_status run_compress(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_row_entries rows = ((const mp_pick *)call->state)->rows;
    mp_array list = mp_array_plain(MP_DTYPE_INT64, 1, &rows.n_entries);
    int64_t room = pick_room(x, call->state);
    (void)run;
    list.data = (char *)x->workspace + (room + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    mp_rows_by_number(&rows);
    mp_cuda_list_true(&x->in[1], rows.n_rows, &list);
    pick(x, &rows, &list, x->workspace);
    return mp_cuda_launched(err);
}

static mp_status prepare_compress(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(prepare_pick(x, mp_compress_prepare, call, err));
    call->run = run_compress;
    return add_room(x, mp_rows_list_bytes(&((const mp_pick *)call->state)->rows), call, err);
}

static mp_status run_unpool(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_row_entries *rows = &((const mp_pick *)call->state)->rows;
    (void)run;
    if (x->is_backward) {
        mp_cuda_rows_gather(rows, &x->in[1], size_of(&x->d_in[0]), x->d_out[0].data, x->d_in[0].data);
    } else {
        mp_cuda_array_zero(&x->out[0]);
        mp_cuda_rows_meet(rows, &x->in[1], MP_MEET_SET, x->out[0].dtype, x->out[0].data, x->in[0].data, x->workspace);
    }
    return mp_cuda_launched(err);
}

static mp_status prepare_unpool(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(mp_max_unpool_prepare(x, call, err));
    call->run = run_unpool;
    call->workspace_bytes =
        x->is_backward ? 0 : mp_cuda_rows_room(&((const mp_pick *)call->state)->rows, MP_MEET_SET, x->out[0].dtype);
    return MP_OK;
}

/* ---- GatherElements */

static int axis_of(const mp_operands *x)
{
    return mp_operands_axis(x, 0, x->in[0].rank);
}

/* Sums of bfloat16 with several terms are made in a float table in the workspace, and rounded once. */
static mp_status run_gather_elements(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_array table = x->is_backward ? x->d_in[0] : x->in[0], sums = mp_array_plain(MP_DTYPE_FLOAT, table.rank, table.dims);
    const mp_array *from = &table, *back = &sums;
    mp_index_lines lines = {&table, x->is_backward ? &x->d_out[0] : &x->out[0], &x->in[1], axis_of(x)};
    (void)run;
    if (!x->is_backward) {
        mp_cuda_lines_gather(&lines);
        return mp_cuda_launched(err);
    }
    if (!(x->adds & 1)) mp_cuda_array_zero(&table);
    if (call->workspace_bytes) {
        sums.data = x->workspace;
        mp_cuda_floats(MP_FORMULA_copy, NULL, &from, 1, &sums);
        lines.table = &sums;
    }
    mp_cuda_lines_meet(&lines, MP_MEET_ADD);
    if (call->workspace_bytes) mp_cuda_floats(MP_FORMULA_copy, NULL, &back, 1, &table);
    return mp_cuda_launched(err);
}

static mp_status prepare_gather_elements(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(mp_gather_elements_prepare(x, call, err));
    call->run = run_gather_elements;
    if (x->is_backward && x->d_in[0].dtype == MP_DTYPE_BFLOAT16 && x->in[1].dims[axis_of(x)] > 1)
        MP_CHECK(add_room(x, mp_array_elements(&x->d_in[0]) * (int64_t)sizeof(float), call, err));
    return MP_OK;
}

/* ---- Scatter, ScatterElements, ScatterND */

static mp_array rescued(const mp_scatter *s, const mp_operands *x, int i)
{
    mp_array a = mp_scatter_operand(s, x, i);
    if (a.data != x->in[i].data) mp_cuda_array_copy(&x->in[i], &a);
    return a;
}

static mp_status run_scatter_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_scatter *s = call->state;
    const mp_array *out = &x->out[0];
    mp_array data = rescued(s, x, 0), indices = rescued(s, x, 1), updates = rescued(s, x, 2);
    mp_index_lines lines = {out, &updates, &indices, s->axis};
    char *room = (char *)x->workspace + s->own_at;
    (void)run;
    mp_cuda_array_copy(&data, out);
    if (s->by_rows)
        mp_cuda_rows_meet(&s->rows, &indices, s->how, out->dtype, out->data, updates.data, room);
    else
        mp_cuda_lines_meet(&lines, s->how);
    return mp_cuda_launched(err);
}

static mp_status run_scatter_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_scatter *s = call->state;
    const mp_array *d_out = &x->d_out[0], *d_data = &x->d_in[0], *d_updates = &x->d_in[2];
    bool data = x->from <= 0 && d_data->dtype, updates = x->from <= 2 && x->to > 2 && d_updates->dtype;
    bool clears = data && s->how == MP_MEET_SET;
    mp_array same = x->in[1]; /* the shape of the indices */
    mp_index_lines from = {d_out, d_updates, &x->in[1], s->axis}, clear = {d_data, &same, &x->in[1], s->axis};
    (void)run;
    if (updates && s->by_rows)
        mp_cuda_rows_gather(&s->rows, &x->in[1], size_of(d_out), d_out->data, d_updates->data);
    else if (updates)
        mp_cuda_lines_gather(&from);
    if (data) mp_cuda_array_copy(d_out, d_data);
    if (clears && s->by_rows)
        mp_cuda_rows_clear(&s->rows, &x->in[1], size_of(d_data), d_data->data);
    else if (clears)
        mp_cuda_lines_clear(&clear);
    return mp_cuda_launched(err);
}

static void gather_updates(const mp_scatter *s, const mp_operands *x, const mp_array *table, const mp_array *to)
{
    const mp_index_lines lines = {table, to, &x->in[1], s->axis};
    if (s->by_rows)
        mp_cuda_rows_gather(&s->rows, &x->in[1], size_of(table), table->data, to->data);
    else
        mp_cuda_lines_gather(&lines);
}

static void meet_updates(const mp_scatter *s, const mp_operands *x, mp_meeting how, const mp_array *table, const mp_array *from)
{
    const mp_index_lines lines = {table, from, &x->in[1], s->axis};
    if (s->by_rows)
        mp_cuda_rows_meet(&s->rows, &x->in[1], how, table->dtype, table->data, from->data, (char *)x->workspace + s->own_at);
    else
        mp_cuda_lines_meet(&lines, how);
}

static mp_status run_scatter_shares(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_scatter *s = call->state;
    const mp_scatter_parts p = mp_scatter_parts_of(s, x);
    const mp_array *dy = &x->d_out[0], *d_data = &x->d_in[0], *d_updates = &x->d_in[2];
    (void)run;
    mp_cuda_scatter_parts(s->how, &x->in[0], &p.results);
    mp_cuda_scatter_parts(s->how, &x->in[2], &p.update_parts);
    meet_updates(s, x, s->how, &p.results, &p.update_parts);
    gather_updates(s, x, &p.results, &p.update_results);
    mp_cuda_scatter_marks(s->how, &x->in[0], &p.results, &p.marks);
    mp_cuda_scatter_marks(s->how, &x->in[2], &p.update_results, &p.update_marks);
    meet_updates(s, x, MP_MEET_ADD, &p.marks, &p.update_marks);
    if (x->from <= 0 && d_data->dtype) mp_cuda_scatter_shares(s->how, &x->in[0], &p.results, dy, &p.marks, d_data);
    if (x->from <= 2 && x->to > 2 && d_updates->dtype) {
        gather_updates(s, x, dy, &p.update_dy);
        gather_updates(s, x, &p.marks, &p.update_marks);
        mp_cuda_scatter_shares(s->how, &x->in[2], &p.update_results, &p.update_dy, &p.update_marks, d_updates);
    }
    return mp_cuda_launched(err);
}

/* Room to sort, for either of the two meetings. */
static int64_t shares_room(const mp_scatter *s)
{
    const int64_t a = mp_cuda_rows_room(&s->rows, s->how, MP_DTYPE_FLOAT);
    const int64_t b = mp_cuda_rows_room(&s->rows, MP_MEET_ADD, MP_DTYPE_FLOAT);
    return a > b ? a : b;
}

static mp_status prepare_scatter(const mp_operands *x, mp_prepare describe, mp_call *call, mp_error *err)
{
    MP_CHECK(describe(x, call, err));
    const mp_scatter *s = call->state;
    if (x->out[0].dtype == MP_DTYPE_DOUBLE && s->how != MP_MEET_SET) {
        return MP_NO_KERNEL(x, err, "a reduction of this type");
    }
    const bool shares = s->how != MP_MEET_SET && s->how != MP_MEET_ADD;
    call->run = !x->is_backward ? run_scatter_forward : shares ? run_scatter_shares : run_scatter_backward;
    if (x->is_backward && shares && s->by_rows) MP_CHECK(add_room(x, shares_room(s), call, err));
    if (!x->is_backward && s->by_rows) MP_CHECK(add_room(x, mp_cuda_rows_room(&s->rows, s->how, x->out[0].dtype), call, err));
    return MP_OK;
}

static mp_status prepare_scatter_elements(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_scatter(x, mp_scatter_elements_prepare, call, err);
}
static mp_status prepare_scatter_nd(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_scatter(x, mp_scatter_nd_prepare, call, err);
}

/* ---- ReverseSequence, OneHot */

static mp_status run_reverse(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)call, (void)run;
    mp_cuda_reverse(x->is_backward ? &x->d_out[0] : &x->in[0], x->is_backward ? &x->d_in[0] : &x->out[0], &x->in[1],
                    (int)mp_operator_int(x->op, "batch_axis", 1), (int)mp_operator_int(x->op, "time_axis", 0));
    return mp_cuda_launched(err);
}

static mp_status run_one_hot(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_array *out = &x->out[0];
    int axis = (int)mp_operator_int(x->op, "axis", -1);
    (void)call, (void)run;
    mp_cuda_one_hot(&x->in[0], out, axis < 0 ? axis + out->rank : axis, x->in[2].data);
    return mp_cuda_launched(err);
}

static mp_status prepare_reverse(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_reverse;
    return mp_reverse_sequence_prepare(x, call, err);
}

static mp_status prepare_one_hot(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_one_hot;
    return mp_one_hot_prepare(x, call, err);
}

const mp_kernel mp_cuda_gathers[] = {
    {"Gather", "", prepare_gather, prepare_gather},
    {"GatherND", "", prepare_gather_nd, prepare_gather_nd},
    {"GatherElements", "", prepare_gather_elements, prepare_gather_elements},
    {"Compress", "", prepare_compress, prepare_compress},
    {"MaxUnpool", "", prepare_unpool, prepare_unpool},
    {"Scatter", "", prepare_scatter_elements, prepare_scatter_elements},
    {"ScatterElements", "", prepare_scatter_elements, prepare_scatter_elements},
    {"ScatterND", "", prepare_scatter_nd, prepare_scatter_nd},
    {"ScatterElements", "memplan", prepare_scatter_elements, prepare_scatter_elements},
    {"ScatterND", "memplan", prepare_scatter_nd, prepare_scatter_nd},
    {"ReverseSequence", "", prepare_reverse, prepare_reverse},
    {"OneHot", "", prepare_one_hot, NULL},
    {0},
};
