/* element_loss.c - reads the parameters of an element loss, and describes its gradients. */
#include "executor/operators/losses/element_loss.h"

#include <string.h>

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
    /* the one that may lie where an operand does comes last */
    for (int i = 1; i >= 0; i--) {
        if (!mp_operands_wants(x, i)) continue;
        s.to = x->d_in[i];
        s.of_target = i == 1;
        s.loops = mp_loops_of(in, 3, &s.to);
        MP_CHECK(loop(&s, s.loops.n_elements, 4, err));
    }
    return MP_OK;
}
