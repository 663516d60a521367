/* indices.c - checks the operands of what picks or places by index. */
#include "executor/operators/gathers/indices.h"

mp_status mp_indices_check(const mp_operands *x, int indices, mp_error *err)
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
        if (!mp_is_real(d->dtype) || x->d_out[0].dtype != d->dtype || d->packed)
            return MP_NO_KERNEL(x, err, "a gradient of this type or layout");
    }
    return MP_OK;
}
