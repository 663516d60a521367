/* columns.c - reads what Col2Im does from its operands. */
#include "executor/operators/sampling/columns.h"

#include "estimator/rules/operands/window.h"

mp_status mp_col2im_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_infer reader = mp_operands_reader(x, err);
    mp_columns columns;
    mp_col2im *s;
    bool known;
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_CHECK(mp_columns_read(&reader, &columns, &known));
    if (!known) return MP_NO_KERNEL(x, err, "a size that is computed while it runs");
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->adds = x->adds & MP_BIT(0);
    s->n = columns.window.n;
    s->n_taps = columns.n_taps;
    for (int d = 0; d < s->n; d++) {
        s->image[d] = columns.image[d];
        s->stops[d] = columns.stops[d];
        s->kernel[d] = columns.window.kernel[d];
        s->stride[d] = columns.window.stride[d];
        s->dilation[d] = columns.window.dilation[d];
        s->begin[d] = columns.window.begin[d];
    }
    return MP_OK;
}
