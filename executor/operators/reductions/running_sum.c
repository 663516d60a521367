/* running_sum.c - fills the description of a CumSum from its operands. */
#include "executor/operators/reductions/running_sum.h"

#include "executor/operators/elementwise/elementwise.h"

mp_status mp_cumsum_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!x->in[1].data) return MP_NO_KERNEL(x, err, "an axis that is computed");
    if (!mp_elementwise_knows(x->in[0].dtype) || x->in[0].rank == 0) return MP_NO_KERNEL(x, err, "its type");
    int64_t axis = mp_load_whole(x->in[1].data, x->in[1].dtype, 0);
    if (axis < 0) axis += x->in[0].rank;
    if (axis < 0 || axis >= x->in[0].rank) return MP_NO_KERNEL(x, err, "an axis that does not exist");
    MP_STATE(mp_cumsum, s, call, err);
    s->axis = (int)axis;
    s->exclusive = mp_operator_int(x->op, "exclusive", 0) != 0;
    s->reverse = (mp_operator_int(x->op, "reverse", 0) != 0) !=
                 x->is_backward; /* an element's gradient sums the gradients of all results that include the element, so
                                    backward reverses the direction */
    return MP_OK;
}

mp_status mp_cumsum_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    mp_cumsum s = *(const mp_cumsum *)call->state;
    s.from = x->is_backward ? x->d_out[0] : x->in[0];
    s.to = x->is_backward ? x->d_in[0] : x->out[0];
    s.is_whole = !mp_dtype_is_float(s.from.dtype);
    s.length = s.from.dims[s.axis];
    s.from_step = s.from.strides[s.axis];
    s.to_step = s.to.strides[s.axis];
    s.from.dims[s.axis] = s.to.dims[s.axis] = 1;
    /* lines (elements along the axis) are adjacent along the innermost dimension that is not the axis */
    const int inner = s.axis == s.from.rank - 1 && s.axis > 0 ? s.axis - 1 : s.from.rank - 1;
    s.adjacent = s.from.dims[inner];
    s.from_next = s.from.strides[inner];
    s.to_next = s.to.strides[inner];
    return loop(&s, mp_array_elements(&s.to), s.length, err);
}
