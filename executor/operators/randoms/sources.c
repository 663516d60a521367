/* sources.c - what element k of a source is. */
#include "executor/operators/randoms/sources.h"

#include <math.h>
#include <string.h>

#include "executor/kernel/element.h"
#include "executor/operators/elementwise/elementwise.h"

enum { WINDOW_TERMS = 3 };

/* A source that fills an array. */
typedef struct source {
    const mp_source_row *row;
    const mp_operands *x;
    const mp_array *out;
    int64_t n; /* elements of the operator's output */
} source;

struct mp_source_row {
    const char *kind;
    void (*fill)(const source *s, int64_t from, int64_t n); /* elements [from, from + n) in row-major order */
    mp_status (*check)(const mp_operands *x, mp_error *err);
    double window[WINDOW_TERMS]; /* factors of cos(0), cos(2 pi k / n), cos(4 pi k / n) */
};

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

/* Constant, and ConstantOfShape, whose value is one number. */
static void fill_constant(const source *s, int64_t from, int64_t n)
{
    const int64_t *whole;
    const double *reals;
    int64_t count;
    constant_value(s->x->op, &whole, &reals, &count);
    for (int64_t k = from; k < from + n; k++) {
        int64_t own = count == 1 ? 0 : k;
        if (reals)
            mp_store_real(s->out->data, s->out->dtype, k, reals[own]);
        else
            mp_store_whole(s->out->data, s->out->dtype, k, whole ? whole[own] : 0);
    }
}

static mp_status check_constant(const mp_operands *x, mp_error *err)
{
    const int64_t *whole;
    const double *reals;
    int64_t n;
    constant_value(x->op, &whole, &reals, &n);
    return n == mp_array_elements(&x->out[0]) ? MP_OK : MP_NO_KERNEL(x, err, "a constant of this size");
}

/* ConstantOfShape: one element, or no value at all. */
static mp_status check_shaped(const mp_operands *x, mp_error *err)
{
    const int64_t *whole;
    const double *reals;
    int64_t n;
    constant_value(x->op, &whole, &reals, &n);
    bool fits = n == 1 || !mp_operator_attribute(x->op, "value");
    return fits ? MP_OK : MP_NO_KERNEL(x, err, "a constant of this size");
}

static int64_t clamped(int64_t bound, int64_t rank)
{
    if (bound < 0) bound += rank;
    return bound < 0 ? 0 : bound > rank ? rank : bound;
}

static void fill_shape(const source *s, int64_t from, int64_t n)
{
    const mp_array *a = &s->x->in[0];
    int64_t start = clamped(mp_operator_int(s->x->op, "start", 0), a->rank);
    for (int64_t k = from; k < from + n; k++) mp_store_whole(s->out->data, s->out->dtype, k, a->dims[start + k]);
}

static void fill_size(const source *s, int64_t from, int64_t n)
{
    (void)n;
    mp_store_whole(s->out->data, s->out->dtype, from, mp_array_elements(&s->x->in[0]));
}

static void fill_range(const source *s, int64_t from, int64_t n)
{
    const mp_array *start = &s->x->in[0], *delta = &s->x->in[2];
    for (int64_t k = from; k < from + n; k++) {
        if (mp_dtype_is_float(s->out->dtype))
            mp_store_real(s->out->data, s->out->dtype, k,
                          mp_load_real(start->data, start->dtype, 0) + (double)k * mp_load_real(delta->data, delta->dtype, 0));
        else
            mp_store_whole(s->out->data, s->out->dtype, k,
                           mp_load_whole(start->data, start->dtype, 0) + k * mp_load_whole(delta->data, delta->dtype, 0));
    }
}

static void fill_eye(const source *s, int64_t from, int64_t n)
{
    int64_t diagonal = mp_operator_int(s->x->op, "k", 0), columns = s->out->dims[1];
    for (int64_t k = from; k < from + n; k++) {
        bool one = k % columns - k / columns == diagonal;
        if (mp_dtype_is_float(s->out->dtype))
            mp_store_real(s->out->data, s->out->dtype, k, one);
        else
            mp_store_whole(s->out->data, s->out->dtype, k, one);
    }
}

static void fill_window(const source *s, int64_t from, int64_t n)
{
    const double pi = 3.14159265358979323846;
    double period = (double)(mp_operator_int(s->x->op, "periodic", 1) ? s->n : s->n - 1);
    for (int64_t k = from; k < from + n; k++) {
        double value = 0;
        for (int t = 0; t < WINDOW_TERMS; t++)
            value += s->row->window[t] * (period > 0 ? cos(2 * pi * t * (double)k / period) : 1);
        if (mp_dtype_is_float(s->out->dtype))
            mp_store_real(s->out->data, s->out->dtype, k, value);
        else
            mp_store_whole(s->out->data, s->out->dtype, k, (int64_t)value);
    }
}

static const mp_source_row rows[] = {
    {"Constant", fill_constant, check_constant, {0}},
    {"ConstantOfShape", fill_constant, check_shaped, {0}},
    {"Shape", fill_shape, NULL, {0}},
    {"Size", fill_size, NULL, {0}},
    {"Range", fill_range, NULL, {0}},
    {"EyeLike", fill_eye, NULL, {0}},
    {"HannWindow", fill_window, NULL, {.5, -.5}},
    {"HammingWindow", fill_window, NULL, {25.0 / 46, -21.0 / 46}},
    {"BlackmanWindow", fill_window, NULL, {.42, -.5, .08}},
};

mp_status mp_source_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_source *s;
    if (!mp_elementwise_knows(x->out[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (!mp_array_is_plain(&x->out[0])) return MP_NO_KERNEL(x, err, "its layout");
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    s->n = mp_array_elements(&x->out[0]);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].kind, x->op->op->name)) s->row = &rows[k];
    if (s->row->check) MP_CHECK(s->row->check(x, err));
    return MP_OK;
}

void mp_source_fill(const mp_source *s, const mp_operands *x, int64_t from, int64_t n)
{
    source filling = {.row = s->row, .x = x, .out = &x->out[0], .n = s->n};
    s->row->fill(&filling, from, n);
}
