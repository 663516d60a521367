/* class_loss.c - reads the reduction, the ignored target and the lines along the classes. */
#include "executor/operators/losses/class_loss.h"

#include <string.h>

mp_status mp_class_loss_read(const mp_operands *x, mp_class_loss *out, mp_error *err)
{
    const char *reduction = mp_operator_text(x->op, "reduction", "mean");
    const mp_array *a = &x->in[0], *loss = x->is_backward ? &x->d_out[0] : &x->out[0];
    if (a->dtype != MP_DTYPE_FLOAT && a->dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (!mp_array_is_plain(loss)) return MP_NO_KERNEL(x, err, "a loss in this layout");
    out->softmax = x->op->op->extras != NULL;
    out->reduction = !strcmp(reduction, "mean")  ? MP_CLASS_LOSS_MEAN
                     : !strcmp(reduction, "sum") ? MP_CLASS_LOSS_SUM
                                                 : MP_CLASS_LOSS_NONE;
    out->ignores = mp_operator_attribute(x->op, "ignore_index") != NULL;
    out->ignored = mp_operator_int(x->op, "ignore_index", 0);
    out->smoothing = out->softmax ? mp_operator_float(x->op, "label_smoothing", 0) : 0;
    out->lines = mp_lines_of(a, 2);
    return MP_OK;
}
