/* columns.c - fills the description of a Col2Im from its operands. */
#include "executor/operators/sampling/columns.h"

#include "estimator/rules/operands/window.h"

mp_status mp_col2im_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_infer reader = mp_operands_reader(x, err);
    mp_columns columns;
    bool known;
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_CHECK(mp_columns_read(&reader, &columns, &known));
    if (!known) return MP_NO_KERNEL(x, err, "a size that is known only at run time");
    MP_STATE(mp_col2im, s, call, err);
    call->adds = x->adds & MP_BIT(0);
    *s = (mp_col2im){.n = columns.window.n,
                     .n_taps = columns.n_taps,
                     .n_elements = 1,
                     .is_backward = x->is_backward,
                     .add = call->adds != 0};
    for (int d = 0; d < s->n; d++) {
        s->n_elements *= columns.image[d];
        s->stops[d] = columns.stops[d];
        s->kernel[d] = columns.window.kernel[d];
        s->stride[d] = columns.window.stride[d];
        s->dilation[d] = columns.window.dilation[d];
        s->begin[d] = columns.window.begin[d];
    }
    return MP_OK;
}

mp_status mp_col2im_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    mp_col2im s = *(const mp_col2im *)call->state;
    s.columns = x->is_backward ? x->d_in[0] : x->in[0];
    s.image = x->is_backward ? x->d_out[0] : x->out[0];
    s.add &= (x->adds & 1) != 0;
    return loop(&s, mp_array_elements(s.is_backward ? &s.columns : &s.image), s.is_backward ? 1 : s.n_taps, err);
}
