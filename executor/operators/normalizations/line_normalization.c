/* line_normalization.c - fills the description of an LpNormalization or LRN from its operands. */
#include "executor/operators/normalizations/line_normalization.h"

static mp_status prepare_lines(const mp_operands *x, int64_t axis, mp_call *call, mp_error *err)
{
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(mp_line_normalization, s, call, err);
    s->is_backward = x->is_backward;
    s->lines = x->in[0];
    s->length = s->lines.dims[axis];
    s->stride = s->lines.strides[axis];
    s->lines.dims[axis] = 1;
    s->n_lines = mp_array_elements(&s->lines);
    return MP_OK;
}

mp_status mp_lp_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(prepare_lines(x, mp_operands_axis(x, -1, x->in[0].rank), call, err));
    ((mp_line_normalization *)call->state)->p = (int)mp_operator_int(x->op, "p", 2);
    return MP_OK;
}

mp_status mp_lrn_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const int64_t size = mp_operator_int(x->op, "size", 1);
    MP_CHECK(prepare_lines(x, 1, call, err));
    mp_line_normalization *s = call->state;
    s->before = (size - 1) / 2;
    s->after = size - 1 - s->before;
    s->alpha = (float)(mp_operator_float(x->op, "alpha", 1e-4f) / (double)size);
    s->beta = (float)mp_operator_float(x->op, "beta", 0.75);
    s->bias = (float)mp_operator_float(x->op, "bias", 1);
    if (x->is_backward) call->workspace_bytes = 2 * mp_array_elements(&x->in[0]) * (int64_t)sizeof(float);
    return MP_OK;
}

mp_status mp_lp_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    mp_line_normalization s = *(const mp_line_normalization *)call->state;
    s.x = x->in[0];
    s.y = x->out[0];
    if (x->is_backward) s.dy = x->d_out[0], s.dx = x->d_in[0];
    s.scale = x->extra[0].data;
    s.direct = x->workspace;
    if (x->is_backward && s.direct) s.terms = s.direct + mp_array_elements(&s.x);
    return loop(&s, s.n_lines, s.length * 16, err);
}

mp_status mp_lrn_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    return mp_lp_run(call, x, loop, err);
}
