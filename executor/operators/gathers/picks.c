/* picks.c - describes the rows that Gather, GatherND, Compress and MaxUnpool pick. */
#include "executor/operators/gathers/picks.h"

#include "estimator/rules/operands/window.h"

static mp_status prepare(const mp_operands *x, mp_call *call, const mp_pick *described, mp_error *err)
{
    mp_pick *p = NULL;
    MP_CHECK(mp_indices_check(x, described->by_condition ? -1 : 1, err));
    MP_ENSURE(p = mp_alloc(1, sizeof *p), err, MP_NOMEM, "out of memory");
    *p = *described;
    call->state = p;
    call->adds = x->adds & 1;
    return MP_OK;
}

mp_status mp_gather_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *table = mp_operands_in(x, 0);
    mp_pick p = {0};
    MP_CHECK(mp_rows_along(x, table, mp_operands_out(x, 0), mp_operands_axis(x, 0, table->rank), x->in[1].rank, &p.rows, err));
    return prepare(x, call, &p, err);
}

mp_status mp_gather_nd_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *table = mp_operands_in(x, 0), *indices = &x->in[1];
    int batch = (int)mp_operator_int(x->op, "batch_dims", 0);
    mp_pick p = {0};
    for (int d = 0; d < batch; d++)
        MP_ENSURE(table->dims[d] == indices->dims[d], err, MP_INVALID, "%s ('%s'): batches of different sizes", x->op->kind,
                  x->op->name);
    MP_CHECK(mp_rows_by_tuple(x, table, mp_operands_out(x, 0), batch, (int)indices->dims[indices->rank - 1], indices->rank - 1,
                              &p.rows, err));
    return prepare(x, call, &p, err);
}

mp_status mp_compress_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *table = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_pick p = {.by_condition = true};
    MP_ENSURE(x->in[1].dtype == MP_DTYPE_BOOL, err, MP_INVALID, "%s ('%s'): the condition is not boolean", x->op->kind,
              x->op->name);
    if (mp_operator_attribute(x->op, "axis"))
        MP_CHECK(mp_rows_along(x, table, out, mp_operands_axis(x, 0, table->rank), 1, &p.rows, err));
    else
        MP_CHECK(mp_rows_by_tuple(x, table, out, 0, table->rank, 1, &p.rows, err));
    return prepare(x, call, &p, err);
}

mp_status mp_max_unpool_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_infer reader = mp_operands_reader(x, err);
    const mp_array *a = mp_operands_in(x, 0);
    mp_array pooled = *mp_operands_out(x, 0);
    mp_window window;
    mp_pick *p;
    if (!mp_is_real(a->dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_ENSURE(p = mp_alloc(1, sizeof *p), err, MP_NOMEM, "out of memory");
    call->state = p;
    MP_CHECK(mp_window_read(&reader, a->rank - 2, NULL, &window));
    MP_CHECK(mp_window_unslide(&reader, &window, a->dims + 2, NULL, pooled.dims + 2));
    MP_CHECK(mp_rows_by_tuple(x, &pooled, a, 0, pooled.rank, a->rank, &p->rows, err));
    mp_rows_by_number(&p->rows);
    return MP_OK;
}
