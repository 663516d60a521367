/* dropout.c - reads the ratio, and whether anything is dropped. */
#include "executor/operators/randoms/dropout.h"

/* What the operator itself says about whether it drops: an input since operator set 12; before it, inference is what the file
 * means. */
static bool drops_as_written(const mp_operands *x)
{
    return x->op->version >= 12 && x->n_in > 2 && x->in[2].data && *(const uint8_t *)x->in[2].data;
}

mp_status mp_dropout_read(const mp_operands *x, mp_dropout *out, mp_error *err)
{
    const mp_array *a = x->is_backward ? &x->d_out[0] : &x->in[0], *y = x->is_backward ? &x->d_in[0] : &x->out[0];
    if (a->dtype != MP_DTYPE_FLOAT && a->dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (!mp_array_same_layout(a, y)) return MP_NO_KERNEL(x, err, "a change of layout");
    *out = (mp_dropout){.n = mp_array_elements(a), .ratio = (float)mp_operator_float(x->op, "ratio", 0.5)};
    if (x->op->version >= 12) {
        bool given = x->n_in > 1 && x->in[1].dtype;
        if (given && !x->in[1].data) return MP_NO_KERNEL(x, err, "a ratio that is computed");
        out->ratio = given ? mp_load_float(x->in[1].data, x->in[1].dtype, 0) : 0.5f;
    }
    out->drops = x->mode == MP_MODE_TRAIN || (x->mode == MP_MODE_AS_WRITTEN && drops_as_written(x));
    if (out->ratio <= 0) out->drops = false;
    return MP_OK;
}

mp_status mp_dropout_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_ENSURE(call->state = mp_alloc(1, sizeof(mp_dropout)), err, MP_NOMEM, "out of memory");
    return mp_dropout_read(x, call->state, err);
}
