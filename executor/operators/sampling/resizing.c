/* resizing.c - reads the tables, and puts the dimensions in the order of memory. */
#include "executor/operators/sampling/resizing.h"

void mp_resizing_free(mp_resizing *resizing)
{
    for (int d = 0; d < MP_ARRAY_RANK; d++) mp_taps_free(&resizing->taps[d]);
}

/* Puts the dimensions in order, those without taps together where they lie so on both sides. */
static void order(mp_resizing *s, const mp_array *from, const mp_array *to)
{
    int by_stride[MP_ARRAY_RANK], n = 0;
    for (int d = 0; d < to->rank; d++) {
        if (s->taps[d].same && to->dims[d] == 1) continue;
        int k = n++;
        for (; k > 0 && (to->strides[by_stride[k - 1]] < to->strides[d] ||
                         (to->strides[by_stride[k - 1]] == to->strides[d] && to->dims[by_stride[k - 1]] < to->dims[d]));
             k--)
            by_stride[k] = by_stride[k - 1];
        by_stride[k] = d;
    }
    for (int k = 0; k < n; k++) {
        int d = by_stride[k], last = s->rank - 1;
        bool same = s->taps[d].same;
        if (same && last >= 0 && s->axis[last] < 0 && s->to_stride[last] == to->strides[d] * to->dims[d] &&
            s->from_stride[last] == from->strides[d] * from->dims[d]) {
            s->n_to[last] *= to->dims[d];
            s->n_from[last] *= from->dims[d];
        } else {
            last = s->rank++;
            s->axis[last] = same ? -1 : d;
            s->n_to[last] = to->dims[d];
            s->n_from[last] = from->dims[d];
        }
        s->to_stride[last] = to->strides[d];
        s->from_stride[last] = from->strides[d];
    }
    if (!s->rank) {
        s->rank = 1;
        s->axis[0] = -1;
        s->n_to[0] = s->n_from[0] = s->to_stride[0] = s->from_stride[0] = 1;
    }
}

mp_status mp_resizing_read(const mp_operands *x, mp_resizing *out, mp_error *err)
{
    const mp_array *from = x->is_backward ? &x->d_out[0] : &x->in[0], *to = x->is_backward ? &x->d_in[0] : &x->out[0];
    if (!mp_is_real(to->dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_CHECK(mp_resize_taps(x, out->taps, err));
    for (int d = 0; d < to->rank && x->is_backward; d++) {
        mp_taps back = {0};
        MP_CHECK(mp_taps_transpose(&out->taps[d], &back, err));
        mp_taps_free(&out->taps[d]);
        out->taps[d] = back;
    }
    if (!x->is_backward) out->empty = (float)mp_operator_float(x->op, "extrapolation_value", 0);
    order(out, from, to);
    out->n_lines = mp_array_elements(to) ? 1 : 0;
    for (int d = 0; d < out->rank - 1; d++) out->n_lines *= out->n_to[d];
    return MP_OK;
}
