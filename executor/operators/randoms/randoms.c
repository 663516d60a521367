/* randoms.c - reads the parameters of Dropout, of tensors of random numbers, and of constants, ranges and windows. */
#include "executor/operators/randoms/randoms.h"

#include <string.h>

#include "executor/operators/elementwise/elementwise.h"

/* True if dropout is enabled by the operator's own input 2, which exists since operator set 12. Dropout of older operator sets
 * drops nothing in the mode MP_MODE_AS_WRITTEN. */
static bool drops_as_written(const mp_operands *x)
{
    return x->op->version >= 12 && x->n_in > 2 && x->in[2].data && *(const uint8_t *)x->in[2].data;
}

mp_status mp_dropout_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = x->is_backward ? &x->d_out[0] : &x->in[0], *y = x->is_backward ? &x->d_in[0] : &x->out[0];
    if (!mp_is_real(a->dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (!mp_array_same_layout(a, y)) return MP_NO_KERNEL(x, err, "a change of layout");
    MP_STATE(mp_dropout, out, call, err);
    *out = (mp_dropout){.n = mp_array_elements(a), .ratio = (float)mp_operator_float(x->op, "ratio", 0.5)};
    if (x->op->version >= 12) {
        bool given = x->n_in > 1 && x->in[1].dtype;
        if (given && !x->in[1].data) return MP_NO_KERNEL(x, err, "a ratio that is computed");
        out->ratio = given ? mp_load_float(x->in[1].data, x->in[1].dtype, 0) : 0.5f;
    }
    out->dealt = mp_dealt_of(&x->model->tensors[x->op->in[0]], a);
    out->drops = x->mode == MP_MODE_TRAIN || (x->mode == MP_MODE_AS_WRITTEN && drops_as_written(x));
    if (out->ratio <= 0) out->drops = false;
    return MP_OK;
}

/* For each operator of random numbers: its distribution, and the attributes for the parameters a and b with their defaults. */
static const struct row {
    const char *name;
    mp_distribution distribution;
    const char *attribute[2];
    double otherwise[2];
} rows[] = {
    {"RandomUniform", MP_UNIFORM, {"low", "high"}, {0, 1}}, {"RandomUniformLike", MP_UNIFORM, {"low", "high"}, {0, 1}},
    {"RandomNormal", MP_NORMAL, {"mean", "scale"}, {0, 1}}, {"RandomNormalLike", MP_NORMAL, {"mean", "scale"}, {0, 1}},
    {"Bernoulli", MP_BERNOULLI, {NULL, NULL}, {0, 0}},
};

static const struct row *row_of(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].name, op->op->name)) return &rows[k];
    return NULL;
}

mp_status mp_random_source_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const struct row *row = row_of(x->op);
    mp_dtype dtype = x->out[0].dtype, from = x->n_in ? x->in[0].dtype : MP_DTYPE_FLOAT;
    if (!row) return MP_NO_KERNEL(x, err, "its distribution");
    if (mp_dtype_bits(dtype) < 8 || dtype == MP_DTYPE_FLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (row->distribution == MP_BERNOULLI && !mp_is_real(from)) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(mp_random_source, s, call, err);
    s->distribution = row->distribution;
    s->op = (uint32_t)x->op_index;
    if (row->attribute[0]) {
        s->a = mp_operator_float(x->op, row->attribute[0], row->otherwise[0]);
        s->b = mp_operator_float(x->op, row->attribute[1], row->otherwise[1]);
    }
    return MP_OK;
}

mp_status mp_random_source_run(const mp_call *call, const mp_operands *x, const uint64_t *seed, const uint32_t *step,
                               mp_body_loop loop, mp_error *err)
{
    mp_random_source s = *(const mp_random_source *)call->state;
    s.seed = seed;
    s.step = step;
    s.out = x->out[0];
    if (s.distribution == MP_BERNOULLI) s.probabilities = x->in[0];
    return loop(&s, mp_array_elements(&s.out), 8, err);
}

/* ---- constants, ranges and windows. */

static const struct source_row {
    const char *kind;
    mp_source_form form;
    double window[MP_WINDOW_TERMS];
} source_rows[] = {
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

static const struct source_row *source_row_of(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof source_rows / sizeof *source_rows; k++)
        if (!strcmp(source_rows[k].kind, op->op->name)) return &source_rows[k];
    return NULL;
}

/* Returns the n elements of the attribute `value`, value_float, ..., as integers or as reals (the other pointer is NULL).
 * Without such an attribute both are NULL and *n is 0. */
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

/* Reads the value of a constant operator: for Constant, one value per element; for ConstantOfShape, one value for all
 * elements, 0 by default. */
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
    const struct source_row *row = source_row_of(x->op);
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
