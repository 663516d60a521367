/* gathers.c - the table of operators that pick or place elements by index, and those that pick rows: Gather, GatherND,
 * Compress.
 *
 * Their gradient adds what belongs to each row of the table to it: the entries are sorted by row, a row's sum is made in float
 * in the order of the entries and rounded once. What no entry names is zeroed before, unless the gradient is to be added.
 */
#include "executor/operators/gathers/row_entries.h"

#include <inttypes.h>

#include "executor/cpu/kernels.h"
#include "executor/operators/moves/moving.h"

mp_status mp_check_picking(const mp_operands *x, int indices, mp_error *err)
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
        if ((d->dtype != MP_DTYPE_FLOAT && d->dtype != MP_DTYPE_BFLOAT16) || x->d_out[0].dtype != d->dtype || d->packed)
            return MP_NO_KERNEL(x, err, "a gradient of this type or layout");
    }
    return MP_OK;
}

/* Which of the true elements of a condition are taken: as many as the output has room for, no more and no less. */
static mp_status read_condition(const mp_row_entries *rows, const mp_operands *x, uint64_t *list, mp_error *err)
{
    const mp_array *condition = &x->in[1];
    const uint8_t *truth = condition->data;
    int64_t n = mp_array_elements(condition), taken = 0;
    for (int64_t k = 0; k < n && k < rows->n_rows; k++) {
        if (!truth[k]) continue;
        if (taken < rows->n_entries) list[taken] = (uint64_t)k << 32 | (uint64_t)taken;
        taken++;
    }
    if (taken != rows->n_entries)
        return MP_FAIL(err, MP_INVALID, "%s ('%s'): the condition takes %" PRId64 " elements, but the shape has %" PRId64,
                       x->op->kind, x->op->name, taken, rows->n_entries);
    return MP_OK;
}

static mp_status read_list(const mp_pick *p, const mp_operands *x, mp_error *err)
{
    return p->by_condition ? read_condition(&p->rows, x, x->workspace, err)
                           : mp_rows_read(&p->rows, x, &x->in[1], x->workspace, err);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_pick *p = call->state;
    mp_status st = read_list(p, x, err);
    (void)run;
    if (st == MP_OK) mp_rows_gather(&p->rows, x->workspace, mp_dtype_bits(x->out[0].dtype) / 8, x->in[0].data, x->out[0].data);
    return st;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_pick *p = call->state;
    (void)run;
    MP_TRY(read_list(p, x, err));
    if (!(x->adds & 1)) mp_fill_zero(&x->d_in[0]);
    mp_rows_meet(&p->rows, mp_rows_sort(&p->rows, x->workspace), MP_MEET_ADD, x->d_in[0].dtype, x->d_in[0].data,
                 x->d_out[0].data);
done:
    return st;
}

static mp_status prepare(const mp_operands *x, mp_call *call, const mp_pick *described, mp_error *err)
{
    mp_status st = MP_OK;
    mp_pick *p = NULL;
    MP_TRY(mp_check_picking(x, described->by_condition ? -1 : 1, err));
    MP_REQUIRE(p = mp_alloc(1, sizeof *p), err, MP_NOMEM, "out of memory");
    *p = *described;
    call->state = p;
    call->run = x->is_backward ? run_backward : run_forward;
    call->workspace_bytes = x->is_backward ? mp_rows_sorted_bytes(&p->rows) : mp_rows_list_bytes(&p->rows);
    call->adds = x->adds & 1;
done:
    return st;
}

mp_status mp_prepare_gather(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_array *table = mp_moving_in(x, 0);
    mp_pick p = {0};
    MP_TRY(mp_rows_along(x, table, mp_moving_out(x, 0), mp_moving_axis(x, 0, table->rank), x->in[1].rank, &p.rows, err));
    MP_TRY(prepare(x, call, &p, err));
done:
    return st;
}

mp_status mp_prepare_gather_nd(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_array *table = mp_moving_in(x, 0), *indices = &x->in[1];
    int batch = (int)mp_operator_int(x->op, "batch_dims", 0);
    mp_pick p = {0};
    for (int d = 0; d < batch; d++)
        MP_REQUIRE(table->dims[d] == indices->dims[d], err, MP_INVALID, "%s ('%s'): batches of different sizes", x->op->kind,
                   x->op->name);
    MP_TRY(mp_rows_by_tuple(x, table, mp_moving_out(x, 0), batch, (int)indices->dims[indices->rank - 1], indices->rank - 1,
                            &p.rows, err));
    MP_TRY(prepare(x, call, &p, err));
done:
    return st;
}

mp_status mp_prepare_compress(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_array *table = mp_moving_in(x, 0), *out = mp_moving_out(x, 0);
    mp_pick p = {.by_condition = true};
    MP_REQUIRE(x->in[1].dtype == MP_DTYPE_BOOL, err, MP_INVALID, "%s ('%s'): the condition is not boolean", x->op->kind,
               x->op->name);
    if (mp_operator_attribute(x->op, "axis"))
        MP_TRY(mp_rows_along(x, table, out, mp_moving_axis(x, 0, table->rank), 1, &p.rows, err));
    else
        MP_TRY(mp_rows_by_tuple(x, table, out, 0, table->rank, 1, &p.rows, err));
    MP_TRY(prepare(x, call, &p, err));
done:
    return st;
}

const mp_kernel mp_cpu_gathers[] = {{"Gather", "", mp_prepare_gather, mp_prepare_gather},
                                    {"GatherND", "", mp_prepare_gather_nd, mp_prepare_gather_nd},
                                    {"GatherElements", "", mp_prepare_gather_elements, mp_prepare_gather_elements},
                                    {"Compress", "", mp_prepare_compress, mp_prepare_compress},
                                    {"Scatter", "", mp_prepare_scatter_elements, mp_prepare_scatter_elements},
                                    {"ScatterElements", "", mp_prepare_scatter_elements, mp_prepare_scatter_elements},
                                    {"ScatterND", "", mp_prepare_scatter_nd, mp_prepare_scatter_nd},
                                    {"ReverseSequence", "", mp_prepare_reverse_sequence, mp_prepare_reverse_sequence},
                                    {"OneHot", "", mp_prepare_one_hot, NULL},
                                    {0}};
