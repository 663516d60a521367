/* triangle.c - checks the operands of Trilu, and remembers its diagonal. */
#include "executor/operators/copies/triangle.h"

#include <string.h>

mp_status mp_triangle_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *k = x->n_in > 1 && x->in[1].dtype ? &x->in[1] : NULL, *a = &x->in[0];
    const mp_array *d = x->is_backward ? &x->d_in[0] : a;
    if (a->rank < 2 || a->packed || x->out[0].packed) return MP_NO_KERNEL(x, err, "an operand like that");
    if (k && (k->dtype != MP_DTYPE_INT64 || (x->is_backward && !k->data)))
        return MP_NO_KERNEL(x, err, "a diagonal that is computed while it runs");
    if (mp_dtype_bits(a->dtype) < 8 || (x->is_backward && !mp_is_real(d->dtype)))
        return MP_NO_KERNEL(x, err, "an element type like that");
    if (!mp_array_same_layout(a, &x->out[0])) return MP_NO_KERNEL(x, err, "a change of layout");
    if (k && k->data) {
        if (!(call->state = mp_alloc(1, sizeof(int64_t)))) return MP_FAIL(err, MP_NOMEM, "out of memory");
        memcpy(call->state, k->data, sizeof(int64_t));
    }
    return MP_OK;
}
