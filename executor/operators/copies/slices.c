/* slices.c - Concat, Split, Slice: parts of a tensor along its axes. */
#include "executor/operators/copies/slices.h"

#include "estimator/rules/operands/layout.h"

/* One output from several inputs, or several from one: part k begins where the one before ends. */
static mp_status put_part(mp_moving *m, int in, int out, const mp_array *small, const mp_array *from, const mp_array *to,
                          mp_moving_part **p, mp_error *err)
{
    mp_status st = mp_moving_add(m, in, out, p, err);
    for (int d = 0; st == MP_OK && d < small->rank; d++)
        mp_box_put(&(*p)->box, small->dims[d], from->strides[d], to->strides[d]);
    return st;
}

mp_status mp_moving_concat(const mp_operands *x, mp_moving *m, mp_error *err)
{
    const mp_array *out = mp_operands_out(x, 0);
    int axis = mp_operands_axis(x, 1, out->rank);
    int64_t start = 0;
    for (int i = 0; i < x->n_in; i++) {
        const mp_array *in = mp_operands_in(x, i);
        mp_moving_part *p;
        MP_CHECK(put_part(m, i, 0, in, in, out, &p, err));
        p->to_at = start * out->strides[axis];
        start += in->dims[axis];
    }
    return MP_OK;
}

mp_status mp_moving_split(const mp_operands *x, mp_moving *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0);
    mp_infer reader = mp_operands_reader(x, err);
    int axis = mp_operands_axis(x, 0, in->rank);
    const int64_t *sizes;
    size_t n;
    int64_t start = 0, whole = in->dims[axis], even = (whole + x->n_out - 1) / x->n_out;
    MP_CHECK(mp_moved_integers(&reader, "split", 13, 1, &sizes, &n));
    for (int o = 0; o < x->n_out; o++) {
        const mp_tensor *t = mp_operator_out(x->model, x->op, o);
        const mp_array *out = mp_operands_out(x, o);
        mp_array part = *in;
        mp_moving_part *p;
        part.dims[axis] = t ? t->dims[axis] : sizes && (size_t)o < n ? sizes[o] : whole - start < even ? whole - start : even;
        MP_CHECK(put_part(m, 0, o, &part, in, out->dtype ? out : in, &p, err));
        p->from_at = start * in->strides[axis];
        start += part.dims[axis];
    }
    return MP_OK;
}

mp_status mp_moving_slice(const mp_operands *x, mp_moving *m, mp_error *err)
{
    const mp_array *in = mp_operands_in(x, 0), *out = mp_operands_out(x, 0);
    mp_infer reader = mp_operands_reader(x, err);
    mp_slice slice;
    bool known;
    mp_moving_part *p;
    MP_CHECK(mp_slice_read(&reader, &slice, &known));
    if (!known) {
        return MP_NO_KERNEL(x, err, "a slice whose bounds are computed while it runs");
    }
    MP_CHECK(mp_moving_add(m, 0, 0, &p, err));
    for (int d = 0; d < in->rank; d++) {
        /* a single element is not stepped from, and its step may be out of all proportion */
        int64_t n = out->dims[d], step = n > 1 ? slice.step[d] : 1, last = slice.start[d] + (n - 1) * step;
        if (n) p->from_at += slice.start[d] * in->strides[d];
        mp_box_put(&p->box, n, step * in->strides[d], out->strides[d]);
        m->cut.low[d] = !n ? 0 : step > 0 ? slice.start[d] : last;
        m->cut.high[d] = !n ? 0 : step > 0 ? last + 1 : slice.start[d] + 1;
        if (step != 1 && step != -1) m->cut.high[d] = m->cut.low[d]; /* what lies between is zeroed with all the rest */
        m->cut.any |= m->cut.low[d] > 0 || m->cut.high[d] < in->dims[d];
    }
    return MP_OK;
}
