/* fold_elementwise.c - values of operators that work element by element on one operand, on many, or by a condition. */
#include <math.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"

/* Functions that are one expression. */
#define REALS(name, expression)  \
    static double name(double x) \
    {                            \
        return (expression);     \
    }
#define INTEGERS(name, expression)           \
    static mp_wide name##_integer(mp_wide x) \
    {                                        \
        return (expression);                 \
    }
REALS(reciprocal, 1 / x)
REALS(sign, isnan(x) ? x : (x > 0) - (x < 0))
REALS(negative, -x)
INTEGERS(negative, -x)
INTEGERS(absolute, x < 0 ? -x : x)
INTEGERS(sign, (x > 0) - (x < 0))
INTEGERS(not, !x)
INTEGERS(complement, ~x)

typedef struct unary {
    const char *name;
    double (*reals)(double x);
    mp_wide (*integers)(mp_wide x);
} unary;

/* rint rounds halves to even, as Round does. */
static const unary unaries[] = {{"Abs", fabs, absolute_integer},
                                {"Acos", acos, NULL},
                                {"Acosh", acosh, NULL},
                                {"Asin", asin, NULL},
                                {"Asinh", asinh, NULL},
                                {"Atan", atan, NULL},
                                {"Atanh", atanh, NULL},
                                {"BitwiseNot", NULL, complement_integer},
                                {"Ceil", ceil, NULL},
                                {"Cos", cos, NULL},
                                {"Cosh", cosh, NULL},
                                {"Exp", exp, NULL},
                                {"Floor", floor, NULL},
                                {"Log", log, NULL},
                                {"Neg", negative, negative_integer},
                                {"Not", NULL, not_integer},
                                {"Reciprocal", reciprocal, NULL},
                                {"Round", rint, NULL},
                                {"Sign", sign, sign_integer},
                                {"Sin", sin, NULL},
                                {"Sinh", sinh, NULL},
                                {"Sqrt", sqrt, NULL},
                                {"Tan", tan, NULL}};

mp_status mp_fold_unary(mp_infer *c)
{
    const mp_value *x = mp_fold_in(c, 0);
    const unary *f = NULL;
    for (size_t k = 0; k < sizeof unaries / sizeof *unaries; k++)
        if (!strcmp(unaries[k].name, c->op->kind)) f = &unaries[k];
    if (!x || !f) return MP_OK;
    const mp_tensor *out = mp_infer_out(c, 0);
    mp_value *y;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (y->is_real ? !f->reals : !f->integers) return MP_OK;
    for (int64_t k = 0; k < x->n; k++) {
        if (y->is_real)
            y->f[k] = mp_fold_round(out->dtype, f->reals(x->f[k]));
        else
            y->i[k] = mp_fold_wrap(out->dtype, f->integers(mp_fold_widen(out->dtype, x->i[k])));
    }
    return mp_fold_give(c, y);
}

/* acc = f(acc, operand k), the operand broadcast to acc's shape. *defined is cleared when the operand is not known. */
static void accumulate(mp_infer *c, const mp_binary *f, int k, mp_value *acc, bool *defined)
{
    const mp_tensor *out = mp_infer_out(c, 0), *in = mp_infer_in(c, k);
    const mp_value *x = mp_fold_in(c, k);
    mp_walk walk;
    *defined = *defined && x && in->dtype == out->dtype;
    if (!*defined) return;
    mp_walk_start(&walk, out->rank, out->dims);
    *defined = mp_walk_broadcast(&walk, 0, in->rank, in->dims);
    for (; walk.k < walk.n && *defined; mp_walk_next(&walk))
        *defined = mp_binary_into(f, out->dtype, acc, walk.k, x, walk.at[0]);
}

/* Clip, operator sets before 11: the bounds are attributes. */
static bool clip_by_attributes(const mp_operator *op, mp_dtype dtype, mp_value *acc)
{
    const mp_value low = {.n = 1, .is_real = true, .f = (double[]){mp_operator_float(op, "min", -INFINITY)}},
                   high = {.n = 1, .is_real = true, .f = (double[]){mp_operator_float(op, "max", INFINITY)}};
    const mp_binary *max = mp_binary_find("Max"), *min = mp_binary_find("Min");
    bool defined = acc->is_real;
    for (int64_t k = 0; k < acc->n && defined; k++)
        defined = mp_binary_into(max, dtype, acc, k, &low, 0) && mp_binary_into(min, dtype, acc, k, &high, 0);
    return defined;
}

/* The operands after the first are taken in one after the other: the second by steps[0], all others by steps[1]. */
mp_status mp_fold_variadic(mp_infer *c)
{
    static const struct {
        const char *name, *steps[2];
        bool mean;
    } kinds[] = {{"Max", {"Max", "Max"}, false},
                 {"Min", {"Min", "Min"}, false},
                 {"Sum", {"Add", "Add"}, false},
                 {"Mean", {"Add", "Add"}, true},
                 {"Clip", {"Max", "Min"}, false}};
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    const mp_tensor *out = mp_infer_out(c, 0);
    size_t kind = 0;
    while (strcmp(kinds[kind].name, c->op->kind))
        if (++kind == sizeof kinds / sizeof *kinds) return MP_OK;
    if (!x || in->dtype != out->dtype) return MP_OK;
    bool defined = true;
    mp_value *y;
    mp_walk walk;
    MP_CHECK(mp_fold_new(c, 0, &y));
    mp_walk_start(&walk, out->rank, out->dims);
    if (!mp_walk_broadcast(&walk, 0, in->rank, in->dims)) return MP_OK;
    for (; walk.k < walk.n; mp_walk_next(&walk)) mp_fold_move(y, walk.k, x, walk.at[0]);
    for (int k = 1; k < c->op->n_in; k++)
        if (mp_infer_in(c, k)) accumulate(c, mp_binary_find(kinds[kind].steps[k > 1]), k, y, &defined);
    if (!strcmp(c->op->kind, "Clip") && c->op->version < 11) defined = defined && clip_by_attributes(c->op, out->dtype, y);
    if (kinds[kind].mean) defined = defined && y->is_real;
    for (int64_t k = 0; kinds[kind].mean && defined && k < y->n; k++)
        y->f[k] = mp_fold_round(out->dtype, y->f[k] / c->op->n_in);
    return defined ? mp_fold_give(c, y) : MP_OK;
}

mp_status mp_fold_where(mp_infer *c)
{
    const mp_value *in[3];
    const mp_tensor *out = mp_infer_out(c, 0);
    mp_value *y;
    mp_walk walk;
    mp_walk_start(&walk, out->rank, out->dims);
    for (int k = 0; k < 3; k++) {
        const mp_tensor *t = mp_infer_in(c, k);
        in[k] = mp_fold_in(c, k);
        if (!in[k] || (k ? t->dtype != out->dtype : t->dtype != MP_DTYPE_BOOL)) return MP_OK;
        if (!mp_walk_broadcast(&walk, k, t->rank, t->dims)) return MP_OK;
    }
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (; walk.k < walk.n; mp_walk_next(&walk)) {
        int taken = in[0]->i[walk.at[0]] ? 1 : 2;
        mp_fold_move(y, walk.k, in[taken], walk.at[taken]);
    }
    return mp_fold_give(c, y);
}

mp_status mp_fold_cast(mp_infer *c)
{
    const mp_value *x = mp_fold_in(c, 0);
    mp_dtype from = mp_infer_in(c, 0)->dtype;
    const mp_tensor *out = mp_infer_out(c, 0);
    bool defined = true;
    mp_value *y;
    if (!x) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (int64_t k = 0; k < x->n && defined; k++) {
        if (x->is_real || y->is_real)
            defined = mp_fold_store(out->dtype, y, k, mp_fold_real(from, x, k));
        else
            y->i[k] = mp_fold_wrap(out->dtype, mp_fold_widen(from, x->i[k]));
    }
    return defined ? mp_fold_give(c, y) : MP_OK;
}
