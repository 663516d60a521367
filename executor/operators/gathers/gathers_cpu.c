/* gathers_cpu.c - operators that pick elements by index: Gather, GatherND, GatherElements, Compress; and MaxUnpool, which puts
 * them back.
 *
 * Their gradient adds what belongs to each row of the table to it: the entries are sorted by row, a row's sum is made in float
 * in the order of the entries and rounded once. What no entry names is zeroed before, unless the gradient is to be added.
 */
#include <inttypes.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/copies/strided_copy_cpu.h"
#include "executor/operators/gathers/lines_cpu.h"
#include "executor/operators/gathers/picks.h"
#include "executor/operators/gathers/rows_cpu.h"

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
                           : mp_cpu_rows_read(&p->rows, x, &x->in[1], x->workspace, err);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_pick *p = call->state;
    mp_status st = read_list(p, x, err);
    (void)run;
    if (st == MP_OK)
        mp_cpu_rows_gather(&p->rows, x->workspace, mp_dtype_bits(x->out[0].dtype) / 8, x->in[0].data, x->out[0].data);
    return st;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_pick *p = call->state;
    (void)run;
    MP_CHECK(read_list(p, x, err));
    if (!(x->adds & 1)) mp_cpu_array_zero(&x->d_in[0]);
    mp_cpu_rows_meet(&p->rows, mp_cpu_rows_sort(&p->rows, x->workspace), MP_MEET_ADD, x->d_in[0].dtype, x->d_in[0].data,
                     x->d_out[0].data);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_prepare describe, mp_call *call, mp_error *err)
{
    MP_CHECK(describe(x, call, err));
    const mp_pick *p = call->state;
    call->run = x->is_backward ? run_backward : run_forward;
    call->workspace_bytes = x->is_backward ? mp_rows_sorted_bytes(&p->rows) : mp_rows_list_bytes(&p->rows);
    return MP_OK;
}

static mp_status prepare_gather(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, mp_gather_prepare, call, err);
}
static mp_status prepare_gather_nd(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, mp_gather_nd_prepare, call, err);
}
static mp_status prepare_compress(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, mp_compress_prepare, call, err);
}

static mp_status run_gather_elements(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_array *table = x->is_backward ? &x->d_in[0] : &x->in[0], *other = x->is_backward ? &x->d_out[0] : &x->out[0];
    mp_index_lines lines = {table, other, &x->in[1], mp_operands_axis(x, 0, x->in[0].rank)};
    (void)call, (void)run;
    MP_CHECK(mp_cpu_lines_check(&lines, x, err));
    if (!x->is_backward) {
        mp_cpu_lines_gather(&lines);
    } else {
        if (!(x->adds & 1)) mp_cpu_array_zero(table);
        mp_cpu_lines_meet(&lines, MP_MEET_ADD);
    }
    return MP_OK;
}

static mp_status prepare_gather_elements(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_gather_elements;
    return mp_gather_elements_prepare(x, call, err);
}

static mp_status run_unpool(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_pick *p = call->state;
    (void)run;
    MP_CHECK(mp_cpu_rows_read(&p->rows, x, &x->in[1], x->workspace, err));
    if (x->is_backward) {
        mp_cpu_rows_gather(&p->rows, x->workspace, mp_dtype_bits(x->d_in[0].dtype) / 8, x->d_out[0].data, x->d_in[0].data);
    } else {
        mp_cpu_array_zero(&x->out[0]);
        mp_cpu_rows_meet(&p->rows, mp_cpu_rows_sort(&p->rows, x->workspace), MP_MEET_SET, x->out[0].dtype, x->out[0].data,
                         x->in[0].data);
    }
    return MP_OK;
}

static mp_status prepare_unpool(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(mp_max_unpool_prepare(x, call, err));
    const mp_pick *p = call->state;
    call->run = run_unpool;
    call->workspace_bytes = x->is_backward ? mp_rows_list_bytes(&p->rows) : mp_rows_sorted_bytes(&p->rows);
    return MP_OK;
}

const mp_kernel mp_cpu_gathers[] = {
    {"Gather", "", prepare_gather, prepare_gather},
    {"GatherND", "", prepare_gather_nd, prepare_gather_nd},
    {"GatherElements", "", prepare_gather_elements, prepare_gather_elements},
    {"Compress", "", prepare_compress, prepare_compress},
    {"MaxUnpool", "", prepare_unpool, prepare_unpool},
    {0},
};
