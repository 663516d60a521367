/* element_loss.c - the parameters of the function, and where the weight of an element lies. */
#include "executor/operators/losses/element_loss.h"

mp_status mp_element_loss_read(const mp_operands *x, mp_element_loss_kind kind, mp_element_loss *out, mp_error *err)
{
    const mp_array *a = &x->in[0];
    if (a->dtype != MP_DTYPE_FLOAT && a->dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    out->kind = kind;
    const double delta = mp_operator_float(x->op, "delta", 1);
    out->delta = (float)delta;
    out->scale = mp_operator_int(x->op, "smooth", 0) ? (float)(1 / delta) : 1;
    return MP_OK;
}

mp_array mp_element_loss_weights(const mp_operands *x)
{
    const mp_array *a = &x->in[0];
    mp_array all = {0};
    if (x->n_in < 3 || !x->in[2].dtype) return all;
    all = *a;
    all.data = x->in[2].data;
    all.dtype = x->in[2].dtype;
    for (int d = 0; d < a->rank; d++) all.strides[d] = 0;
    if (a->rank && x->in[2].dims[0] > 1) all.strides[a->rank - 1] = x->in[2].strides[0];
    return all;
}
