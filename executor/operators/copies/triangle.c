/* triangle.c - fills the description of a Trilu from its operands. */
#include "executor/operators/copies/triangle.h"

#include <string.h>

static const mp_array *diagonal_of(const mp_operands *x)
{
    return x->n_in > 1 && x->in[1].dtype ? &x->in[1] : NULL;
}

mp_status mp_trilu_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *k = diagonal_of(x), *a = &x->in[0];
    const mp_array *d = x->is_backward ? &x->d_in[0] : a;
    if (a->rank < 2 || a->packed || x->out[0].packed) return MP_NO_KERNEL(x, err, "this operand");
    if (k && (k->dtype != MP_DTYPE_INT64 || (x->is_backward && !k->data)))
        return MP_NO_KERNEL(x, err, "a diagonal that is known only at run time");
    if (mp_dtype_bits(a->dtype) < 8 || (x->is_backward && !mp_is_real(d->dtype)))
        return MP_NO_KERNEL(x, err, "this element type");
    if (!mp_array_same_layout(a, &x->out[0])) return MP_NO_KERNEL(x, err, "a change of layout");
    MP_STATE(mp_trilu, s, call, err);
    call->adds = x->adds;
    s->size = mp_dtype_bits(a->dtype) / 8;
    s->upper = mp_operator_int(x->op, "upper", 1) != 0;
    s->is_computed = k && !k->data;
    if (k && k->data) memcpy(&s->diagonal, k->data, sizeof s->diagonal);
    return MP_OK;
}

mp_status mp_trilu_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    mp_trilu s = *(const mp_trilu *)call->state;
    s.from = x->is_backward ? x->d_out[0] : x->in[0];
    s.to = x->is_backward ? x->d_in[0] : x->out[0];
    s.add = x->is_backward && (x->adds & 1);
    if (s.is_computed) s.computed = diagonal_of(x)->data;
    return loop(&s, mp_row_spans(&s.to), MP_ROW_SPAN, err);
}
