/* gathers.c - plans and runs Gather, GatherND, GatherElements, Compress and MaxUnpool. */
#include "executor/operators/gathers/gathers.h"

#include "estimator/rules/operands/window.h"

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_index_plan *p = call->state;
    const mp_array *in = x->is_backward ? &x->d_in[0] : &x->in[0], *out = x->is_backward ? &x->d_out[0] : &x->out[0];
    const mp_array *table = p->puts_back ? out : in, *other = p->puts_back ? in : out;
    mp_indexing r = {.plan = p, .x = x, .indices = x->in[1], .room = x->workspace};
    MP_CHECK(p->by->read(&r, err));
    if (p->uses & MP_INDEX_PICKS) {
        p->by->pick(&r, table, other);
    } else {
        if (!(x->is_backward && x->adds & 1)) p->by->zero(table);
        p->by->reduce(&r, p->how, table, other);
    }
    return p->by->done(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, const mp_index_plan *plan, mp_error *err)
{
    mp_index_plan *p = NULL;
    int64_t at;
    MP_CHECK(mp_indices_check(x, plan->by_condition ? -1 : 1, err));
    MP_ENSURE(p = mp_alloc(1, sizeof *p), err, MP_NOMEM, "out of memory");
    *p = *plan;
    p->by = by;
    p->how = p->puts_back ? MP_INDEX_SET : MP_INDEX_ADD;
    p->uses = x->is_backward == p->puts_back ? MP_INDEX_PICKS : MP_INDEX_REDUCES;
    call->state = p;
    call->run = run;
    if (!p->puts_back) call->adds = x->adds & 1;
    return mp_index_plan_workspace(x, p, p->how, (x->is_backward ? &x->d_in[0] : &x->out[0])->dtype, call, &at, err);
}

mp_status mp_gather_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err)
{
    const mp_array *table = mp_operands_in(x, 0);
    const int axis = mp_operands_axis(x, 0, table->rank);
    const mp_tensor_part *part = x->model->tensors[x->op->in[0]].part;
    mp_index_plan p = {.by_rows = true};
    MP_CHECK(mp_rows_along(x, table, mp_operands_out(x, 0), axis, x->in[1].rank, &p.rows, err));
    if (part && part->dim == axis) p.rows.ranks = (int)part->ranks;
    return prepare(x, call, by, &p, err);
}

mp_status mp_gather_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err)
{
    const mp_array *table = mp_operands_in(x, 0), *indices = &x->in[1];
    int batch = (int)mp_operator_int(x->op, "batch_dims", 0);
    mp_index_plan p = {.by_rows = true};
    for (int d = 0; d < batch; d++)
        MP_ENSURE(table->dims[d] == indices->dims[d], err, MP_INVALID,
                  "%s ('%s'): data and indices have batches of different sizes", x->op->kind, x->op->name);
    MP_CHECK(mp_rows_by_tuple(x, table, mp_operands_out(x, 0), batch, (int)indices->dims[indices->rank - 1], indices->rank - 1,
                              &p.rows, err));
    return prepare(x, call, by, &p, err);
}

mp_status mp_gather_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err)
{
    mp_index_plan p = {.axis = mp_operands_axis(x, 0, x->in[0].rank)};
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_CHECK(mp_index_elements_check(x, &x->in[0], &x->out[0], p.axis, err));
    if (x->is_backward && x->d_in[0].dtype == MP_DTYPE_BFLOAT16 && x->in[1].dims[p.axis] > 1)
        p.sums_bytes = mp_array_elements(&x->d_in[0]) * (int64_t)sizeof(float);
    return prepare(x, call, by, &p, err);
}

mp_status mp_compress_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err)
{
    const mp_array *table = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_index_plan p = {.by_rows = true, .by_condition = true};
    MP_ENSURE(x->in[1].dtype == MP_DTYPE_BOOL, err, MP_INVALID, "%s ('%s'): the condition is not boolean", x->op->kind,
              x->op->name);
    if (mp_operator_attribute(x->op, "axis"))
        MP_CHECK(mp_rows_along(x, table, out, mp_operands_axis(x, 0, table->rank), 1, &p.rows, err));
    else
        MP_CHECK(mp_rows_by_tuple(x, table, out, 0, table->rank, 1, &p.rows, err));
    mp_rows_by_number(&p.rows);
    return prepare(x, call, by, &p, err);
}

mp_status mp_max_unpool_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err)
{
    mp_infer reader = mp_operands_reader(x, err);
    const mp_array *a = mp_operands_in(x, 0);
    mp_array pooled = *mp_operands_out(x, 0);
    mp_window window;
    mp_index_plan p = {.by_rows = true, .puts_back = true};
    if (!mp_is_real(a->dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_CHECK(mp_window_read(&reader, a->rank - 2, NULL, &window));
    MP_CHECK(mp_window_unslide(&reader, &window, a->dims + 2, NULL, pooled.dims + 2));
    MP_CHECK(mp_rows_by_tuple(x, &pooled, a, 0, pooled.rank, a->rank, &p.rows, err));
    mp_rows_by_number(&p.rows);
    return prepare(x, call, by, &p, err);
}
