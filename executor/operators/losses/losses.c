/* losses.c - reads the parameters of a loss, and computes the gradients of a loss over elements. */
#include "executor/operators/losses/losses.h"

#include <assert.h>
#include <string.h>

#include "estimator/parallel/split.h"

static_assert(sizeof(mp_class_part) == MP_CLASS_PART_BYTES, "the record of a loss over classes states the bytes that are sent");

#define KIND(kind, is) {kind, is},
static const struct row {
    const char *kind;
    mp_element_loss_kind is;
} rows[] = {MP_ELEMENT_LOSSES(KIND)};

mp_status mp_element_loss_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const double delta = mp_operator_float(x->op, "delta", 1);
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(mp_element_loss, s, call, err);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].kind, x->op->op->name)) s->kind = rows[k].is;
    s->delta = (float)delta;
    s->scale = mp_operator_int(x->op, "smooth", 0) ? (float)(1 / delta) : 1;
    return MP_OK;
}

mp_array mp_element_loss_weights(const mp_operands *x)
{
    const mp_array *a = &x->in[0], *w = x->n_in > 2 && x->in[2].dtype ? &x->in[2] : NULL;
    mp_array all = *a;
    all.data = w ? w->data : NULL;
    if (w) all.dtype = w->dtype;
    for (int d = 0; d < a->rank; d++) all.strides[d] = 0;
    if (w && a->rank && w->dims[0] > 1) all.strides[a->rank - 1] = w->strides[0];
    return all;
}

mp_status mp_element_loss_backward(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    mp_element_slope s = {.loss = *(const mp_element_loss *)call->state,
                          .a = x->in[0],
                          .b = x->in[1],
                          .w = mp_element_loss_weights(x),
                          .dy = x->d_out[0]};
    const mp_array *in[] = {&s.a, &s.b, &s.w};
    /* the gradient of the prediction (operand 0) is computed last, because it may overwrite an operand */
    for (int i = 1; i >= 0; i--) {
        if (!mp_operands_wants(x, i)) continue;
        s.to = x->d_in[i];
        s.of_target = i == 1;
        s.loops = mp_loops_of(in, 3, &s.to);
        MP_CHECK(loop(&s, s.loops.n_elements, 4, err));
    }
    return MP_OK;
}

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
    out->ranks = mp_class_loss_ranks(x->model, x->op);
    out->sharers = mp_class_loss_sharers(x->model, x->op);
    out->is_counted = mp_class_loss_is_counted(x->op);
    return MP_OK;
}
