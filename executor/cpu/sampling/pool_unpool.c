/* pool_unpool.c - MaxUnpool: values go back to where MaxPool's indices say they were; everything else is zero, and of values
 * that meet the last one stays. Indices count the elements row-major of the tensor that was pooled: a larger output
 * (output_shape) has rows of zeros more.
 */
#include "estimator/rules/operands/window.h"
#include "executor/cpu/sampling/pools.h"
#include "executor/operators/gathers/row_entries.h"
#include "executor/operators/moves/moving.h"

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_pick *p = call->state;
    (void)run;
    MP_TRY(mp_rows_read(&p->rows, x, &x->in[1], x->workspace, err));
    if (x->is_backward) {
        mp_rows_gather(&p->rows, x->workspace, mp_dtype_bits(x->d_in[0].dtype) / 8, x->d_out[0].data, x->d_in[0].data);
    } else {
        mp_fill_zero(&x->out[0]);
        mp_rows_meet(&p->rows, mp_rows_sort(&p->rows, x->workspace), MP_MEET_SET, x->out[0].dtype, x->out[0].data,
                     x->in[0].data);
    }
done:
    return st;
}

mp_status mp_prepare_max_unpool(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_infer infer = {.model = (mp_model *)x->model, .op = (mp_operator *)x->op, .err = err, .missing_value = -1};
    const mp_array *a = mp_moving_in(x, 0);
    mp_array pooled = *mp_moving_out(x, 0);
    mp_window window;
    mp_pick *p;
    if (a->dtype != MP_DTYPE_FLOAT && a->dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    MP_TRY(mp_check_picking(x, 1, err));
    MP_REQUIRE(p = mp_alloc(1, sizeof *p), err, MP_NOMEM, "out of memory");
    call->state = p;
    call->run = run;
    MP_TRY(mp_window_read(&infer, a->rank - 2, NULL, &window));
    MP_TRY(mp_window_unslide(&infer, &window, a->dims + 2, NULL, pooled.dims + 2));
    MP_TRY(mp_rows_by_tuple(x, &pooled, a, 0, pooled.rank, a->rank, &p->rows, err));
    mp_rows_by_number(&p->rows);
    call->workspace_bytes = x->is_backward ? mp_rows_list_bytes(&p->rows) : mp_rows_sorted_bytes(&p->rows);
done:
    return st;
}
