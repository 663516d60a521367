/* top.c - describes the lines of a TopK. */
#include "executor/operators/reductions/top.h"

#include "executor/operators/elementwise/elementwise.h"

mp_status mp_top_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *in = x->is_backward ? &x->d_in[0] : &x->in[0], *values = x->is_backward ? &x->d_out[0] : &x->out[0];
    const mp_array *indices = &x->out[1];
    int64_t axis = mp_operator_int(x->op, "axis", -1);
    if (!mp_elementwise_knows(in->dtype) || !values->dtype || !indices->dtype) return MP_NO_KERNEL(x, err, "its type");
    if (x->is_backward && !mp_is_real(in->dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (axis < 0) axis += in->rank;
    if (axis < 0 || axis >= in->rank) return MP_NO_KERNEL(x, err, "an axis that does not exist");
    MP_STATE(mp_top, s, call, err);
    s->n_lines = 1;
    for (int d = 0; d < in->rank; d++) {
        if (d == axis) continue;
        s->dims[s->rank] = in->dims[d];
        s->in[s->rank] = in->strides[d];
        s->values[s->rank] = values->strides[d];
        s->indices[s->rank++] = indices->strides[d];
        s->n_lines *= in->dims[d];
    }
    s->length = in->dims[axis];
    s->k = values->dims[axis];
    s->in_step = in->strides[axis];
    s->value_step = values->strides[axis];
    s->index_step = indices->strides[axis];
    s->largest = mp_operator_int(x->op, "largest", 1) != 0;
    return MP_OK;
}

mp_top mp_top_of(const mp_call *call, const mp_operands *x)
{
    mp_top s = *(const mp_top *)call->state;
    s.from = x->is_backward ? x->d_in[0] : x->in[0];
    s.to = x->is_backward ? x->d_out[0] : x->out[0];
    s.where = x->out[1].data;
    return s;
}
