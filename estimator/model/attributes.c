/* attributes.c - attributes are found by a scan: operators have few. */
#include "estimator/model/attributes.h"

#include <string.h>

#include "estimator/model/model.h"

const mp_attribute *mp_operator_attribute(const mp_operator *op, const char *name)
{
    for (size_t k = 0; k < op->n_attributes; k++)
        if (!strcmp(op->attributes[k].name, name)) return &op->attributes[k];
    return NULL;
}

/* The attribute if it is there and of this kind. */
static const mp_attribute *attribute_of_kind(const mp_operator *op, const char *name, mp_attribute_kind kind)
{
    const mp_attribute *a = mp_operator_attribute(op, name);
    return a && a->kind == kind ? a : NULL;
}

int64_t mp_operator_int(const mp_operator *op, const char *name, int64_t otherwise)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_INT);
    return a ? a->i : otherwise;
}

double mp_operator_float(const mp_operator *op, const char *name, double otherwise)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_FLOAT);
    return a ? a->f : otherwise;
}

const char *mp_operator_text(const mp_operator *op, const char *name, const char *otherwise)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_TEXT);
    return a ? a->text : otherwise;
}

const int64_t *mp_operator_ints(const mp_operator *op, const char *name, size_t *n)
{
    const mp_attribute *a = attribute_of_kind(op, name, MP_ATTRIBUTE_INTS);
    *n = a ? a->n : 0;
    return a ? a->ints : NULL;
}

/* A copy of `n` elements of `size` bytes in the pool, or NULL; `from` may be NULL when n is 0. */
static void *copy_elements(mp_pool *pool, const void *from, size_t n, size_t size)
{
    void *copy = mp_pool_alloc(pool, n, size);
    if (copy && n) memcpy(copy, from, n * size);
    return copy;
}

/* Replaces every pointer of *a by one to a copy; false: out of memory. */
static bool own_contents(mp_model *model, mp_attribute *a)
{
    mp_pool *pool = model->pool;
    if (!(a->name = mp_pool_text(pool, a->name, strlen(a->name)))) return false;
    if (a->text && !(a->text = mp_pool_text(pool, a->text, strlen(a->text)))) return false;
    if (a->ints && !(a->ints = copy_elements(pool, a->ints, a->n, sizeof *a->ints))) return false;
    if (a->floats && !(a->floats = copy_elements(pool, a->floats, a->n, sizeof *a->floats))) return false;
    if (a->dims && !(a->dims = copy_elements(pool, a->dims, a->rank > 0 ? (size_t)a->rank : 0, sizeof *a->dims))) return false;
    if (a->value) {
        mp_value *value = mp_value_new(model, a->value->n, a->value->is_real);
        if (!value) return false;
        if (value->n && value->is_real) memcpy(value->f, a->value->f, (size_t)value->n * sizeof *value->f);
        if (value->n && !value->is_real) memcpy(value->i, a->value->i, (size_t)value->n * sizeof *value->i);
        a->value = value;
    }
    return true;
}

mp_status mp_attributes_copy(mp_model *model, const mp_attribute *from, size_t n, mp_attribute **out, mp_error *err)
{
    mp_attribute *copy = copy_elements(model->pool, from, n, sizeof *from);
    bool complete = copy != NULL;
    for (size_t k = 0; complete && k < n; k++) complete = own_contents(model, &copy[k]);
    if (!complete) return MP_FAIL(err, MP_NOMEM, "no memory for %zu attributes", n);
    *out = copy;
    return MP_OK;
}
