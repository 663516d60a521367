/* fold_source.c - values of operators that make tensors from attributes or shapes, and of those that tell a shape. */
#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"

mp_status mp_fold_constant(mp_infer *c)
{
    const int64_t n = mp_tensor_elements(mp_infer_out(c, 0));
    const mp_attribute *a = mp_operator_attribute(c->op, "value");
    mp_value *y;
    if (a && a->kind == MP_ATTRIBUTE_TENSOR) return a->value && a->value->n == n ? mp_fold_give(c, a->value) : MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (c->op->n_attributes != 1) return MP_OK;
    a = &c->op->attributes[0];
    for (int64_t k = 0; k < n; k++) {
        if (y->is_real)
            y->f[k] = mp_fold_round(MP_DTYPE_FLOAT, a->kind == MP_ATTRIBUTE_FLOAT ? a->f : a->floats[k]);
        else
            y->i[k] = a->kind == MP_ATTRIBUTE_INT ? a->i : a->ints[k];
    }
    return mp_fold_give(c, y);
}

mp_status mp_fold_constant_of_shape(mp_infer *c)
{
    const mp_tensor *out = mp_infer_out(c, 0);
    const mp_attribute *a = mp_operator_attribute(c->op, "value");
    bool given = a && a->kind == MP_ATTRIBUTE_TENSOR;
    mp_value *y;
    if (given && (!a->value || a->value->n < 1 || a->value->is_real != mp_dtype_is_float(out->dtype))) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (int64_t k = 0; given && k < y->n; k++) mp_fold_move(y, k, a->value, 0);
    return mp_fold_give(c, y);
}

/* Shape, whose output is a list, and Size, whose output is a number. Both ask for the input's shape only. */
mp_status mp_fold_shape(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_tensor *out = mp_infer_out(c, 0);
    mp_value *y;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (out->rank == 0) {
        y->i[0] = mp_tensor_elements(in);
    } else {
        int64_t start = mp_operator_int(c->op, "start", 0);
        if (start < 0) start += in->rank;
        if (start < 0) start = 0;
        for (int64_t k = 0; k < y->n; k++) y->i[k] = in->dims[start + k];
    }
    return mp_fold_give(c, y);
}

mp_status mp_fold_range(mp_infer *c)
{
    const mp_value *start = mp_fold_in(c, 0), *delta = mp_fold_in(c, 2);
    const mp_tensor *out = mp_infer_out(c, 0);
    mp_value *y;
    if (!start || !delta || start->n != 1 || delta->n != 1 || start->is_real != delta->is_real) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (int64_t k = 0; k < y->n; k++) {
        if (y->is_real)
            y->f[k] = mp_fold_round(out->dtype, start->f[0] + (double)k * delta->f[0]);
        else
            y->i[k] = mp_fold_wrap(out->dtype, (mp_wide)start->i[0] + (mp_wide)k * delta->i[0]);
    }
    return mp_fold_give(c, y);
}

mp_status mp_fold_eye_like(mp_infer *c)
{
    const mp_tensor *out = mp_infer_out(c, 0);
    int64_t k = mp_operator_int(c->op, "k", 0);
    mp_value *y;
    mp_walk walk;
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (mp_walk_start(&walk, out->rank, out->dims); walk.k < walk.n; mp_walk_next(&walk))
        if (walk.index[1] - walk.index[0] == k) mp_fold_store(out->dtype, y, walk.k, 1);
    return mp_fold_give(c, y);
}
