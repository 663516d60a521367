/* fold_source.c - fold rules of operators that create tensors from attributes or shapes, and of Shape and Size. */
#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"

bool mp_fold_constant(const mp_fold *f)
{
    const mp_attribute *a = mp_operator_attribute(f->c->op, "value");
    if (a && a->kind == MP_ATTRIBUTE_TENSOR) {
        f->out->value = a->value;
        return a->value && a->value->n == mp_tensor_elements(f->out);
    }
    if (f->c->op->n_attributes != 1) return false;
    a = &f->c->op->attributes[0];
    for (int64_t k = 0; k < f->y->n; k++) {
        if (f->y->is_real)
            f->y->f[k] = mp_fold_round(MP_DTYPE_FLOAT, a->kind == MP_ATTRIBUTE_FLOAT ? a->f : a->floats[k]);
        else
            f->y->i[k] = a->kind == MP_ATTRIBUTE_INT ? a->i : a->ints[k];
    }
    return true;
}

bool mp_fold_constant_of_shape(const mp_fold *f)
{
    const mp_attribute *a = mp_operator_attribute(f->c->op, "value");
    const bool given = a && a->kind == MP_ATTRIBUTE_TENSOR;
    if (given && (!a->value || a->value->n < 1 || a->value->is_real != f->y->is_real)) return false;
    for (int64_t k = 0; given && k < f->y->n; k++) mp_fold_move(f->y, k, a->value, 0);
    return true;
}

/* Folds Shape, whose output is a list, and Size, whose output is a scalar. */
bool mp_fold_shape(const mp_fold *f)
{
    int64_t start = mp_operator_int(f->c->op, "start", 0);
    if (start < 0) start += f->in->rank;
    if (start < 0) start = 0;
    for (int64_t k = 0; k < f->y->n; k++) f->y->i[k] = f->out->rank ? f->in->dims[start + k] : mp_tensor_elements(f->in);
    return true;
}

bool mp_fold_range(const mp_fold *f)
{
    const mp_value *delta = mp_fold_in(f->c, 2);
    for (int64_t k = 0; k < f->y->n; k++) {
        if (f->y->is_real)
            f->y->f[k] = mp_fold_round(f->out->dtype, f->x->f[0] + (double)k * delta->f[0]);
        else
            f->y->i[k] = mp_fold_wrap(f->out->dtype, (mp_wide)f->x->i[0] + (mp_wide)k * delta->i[0]);
    }
    return true;
}

bool mp_fold_eye_like(const mp_fold *f)
{
    const int64_t diagonal = mp_operator_int(f->c->op, "k", 0);
    mp_walk walk;
    for (mp_walk_start(&walk, f->out->rank, f->out->dims); walk.k < walk.n; mp_walk_next(&walk))
        if (walk.index[1] - walk.index[0] == diagonal) mp_fold_store(f->out->dtype, f->y, walk.k, 1);
    return true;
}
