/* sources.c - fills the description of a source from its operands. */
#include "executor/operators/randoms/sources.h"

#include <string.h>

#include "executor/operators/elementwise/elementwise.h"

static const struct row {
    const char *kind;
    mp_source_form form;
    double window[MP_WINDOW_TERMS];
} rows[] = {
    {"Constant", MP_SOURCE_VALUES, {0}},
    {"ConstantOfShape", MP_SOURCE_CONSTANT, {0}},
    {"Shape", MP_SOURCE_SHAPE, {0}},
    {"Size", MP_SOURCE_SIZE, {0}},
    {"Range", MP_SOURCE_RANGE, {0}},
    {"EyeLike", MP_SOURCE_EYE, {0}},
    {"HannWindow", MP_SOURCE_WINDOW, {.5, -.5}},
    {"HammingWindow", MP_SOURCE_WINDOW, {25.0 / 46, -21.0 / 46}},
    {"BlackmanWindow", MP_SOURCE_WINDOW, {.42, -.5, .08}},
};

static const struct row *row_of(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].kind, op->op->name)) return &rows[k];
    return NULL;
}

/* The elements of an attribute that is one of the forms of `value`; NULL with *n 0 without one. */
static void constant_value(const mp_operator *op, const int64_t **whole, const double **reals, int64_t *n)
{
    static const char *const names[] = {"value", "value_float", "value_floats", "value_int", "value_ints"};
    *whole = NULL;
    *reals = NULL;
    *n = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const mp_attribute *a = mp_operator_attribute(op, names[k]);
        if (!a) continue;
        if (a->kind == MP_ATTRIBUTE_TENSOR && a->value) {
            *n = a->value->n;
            *whole = a->value->is_real ? NULL : a->value->i;
            *reals = a->value->is_real ? a->value->f : NULL;
        }
        if (a->kind == MP_ATTRIBUTE_FLOAT) *reals = &a->f, *n = 1;
        if (a->kind == MP_ATTRIBUTE_FLOATS) *reals = a->floats, *n = (int64_t)a->n;
        if (a->kind == MP_ATTRIBUTE_INT) *whole = &a->i, *n = 1;
        if (a->kind == MP_ATTRIBUTE_INTS) *whole = a->ints, *n = (int64_t)a->n;
    }
}

/* Constant has a value for each element; ConstantOfShape one for all, or none, which is 0. */
static mp_status read_constant(const mp_operands *x, mp_source *s, mp_error *err)
{
    int64_t n;
    constant_value(x->op, &s->wholes, &s->reals, &n);
    if (s->form == MP_SOURCE_VALUES ? n != mp_array_elements(&x->out[0]) : n != 1 && mp_operator_attribute(x->op, "value"))
        return MP_NO_KERNEL(x, err, "a constant of this size");
    s->is_real = s->reals != NULL;
    if (n == 1) s->form = MP_SOURCE_CONSTANT;
    if (n == 1 && s->is_real) s->real = s->reals[0];
    if (n == 1 && !s->is_real) s->whole = s->wholes[0];
    return MP_OK;
}

static int64_t clamped(int64_t bound, int64_t rank)
{
    if (bound < 0) bound += rank;
    return bound < 0 ? 0 : bound > rank ? rank : bound;
}

mp_status mp_source_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const struct row *row = row_of(x->op);
    const mp_array *out = &x->out[0], *in = x->n_in ? &x->in[0] : NULL;
    const int64_t n = mp_array_elements(out);
    if (!mp_elementwise_knows(out->dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (!mp_array_is_plain(out)) return MP_NO_KERNEL(x, err, "its layout");
    MP_STATE(mp_source, s, call, err);
    s->form = row->form;
    memcpy(s->window, row->window, sizeof s->window);
    if (s->form == MP_SOURCE_RANGE || s->form == MP_SOURCE_WINDOW) s->is_real = mp_dtype_is_float(out->dtype);
    s->period = (double)(mp_operator_int(x->op, "periodic", 1) ? n : n - 1);
    s->diagonal = mp_operator_int(x->op, "k", 0);
    s->columns = out->rank > 1 ? out->dims[1] : 1;
    if (s->form == MP_SOURCE_SHAPE) {
        int64_t start = clamped(mp_operator_int(x->op, "start", 0), in->rank);
        memcpy(s->dims, in->dims + start, (size_t)n * sizeof *s->dims);
    }
    if (s->form == MP_SOURCE_SIZE) s->whole = mp_array_elements(in);
    if (s->form == MP_SOURCE_CONSTANT || s->form == MP_SOURCE_VALUES) return read_constant(x, s, err);
    return MP_OK;
}

mp_source mp_source_of(const mp_call *call, const mp_operands *x)
{
    mp_source s = *(const mp_source *)call->state;
    s.out = x->out[0];
    if (s.form == MP_SOURCE_RANGE) s.first = x->in[0], s.step = x->in[2];
    return s;
}
