/* fold_elementwise.c - fold rules of elementwise operators with one or several operands, and of Where. */
#include <math.h>
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"

/* Defines functions that consist of one expression. */
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

/* rint rounds halves to the even number, as ONNX's Round does */
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

bool mp_fold_unary(const mp_fold *f)
{
    const unary *function = NULL;
    for (size_t k = 0; k < sizeof unaries / sizeof *unaries; k++)
        if (!strcmp(unaries[k].name, f->c->op->kind)) function = &unaries[k];
    if (!function || (f->y->is_real ? !function->reals : !function->integers)) return false;
    for (int64_t k = 0; k < f->x->n; k++) {
        if (f->y->is_real)
            f->y->f[k] = mp_fold_round(f->out->dtype, function->reals(f->x->f[k]));
        else
            f->y->i[k] = mp_fold_wrap(f->out->dtype, function->integers(mp_fold_widen(f->out->dtype, f->x->i[k])));
    }
    return true;
}

/* Sets each element of y to step(y, operand k). The operand is broadcast to y's shape. Returns false if the result is
 * undefined. */
static bool accumulate(const mp_fold *f, const mp_binary *step, int k)
{
    const mp_tensor *in = mp_infer_in(f->c, k);
    const mp_value *x = mp_fold_in(f->c, k);
    mp_walk walk;
    mp_walk_start(&walk, f->out->rank, f->out->dims);
    bool defined = in->dtype == f->out->dtype && mp_walk_broadcast(&walk, 0, in->rank, in->dims);
    for (; walk.k < walk.n && defined; mp_walk_next(&walk))
        defined = mp_binary_into(step, f->out->dtype, f->y, walk.k, x, walk.at[0]);
    return defined;
}

/* Folds Clip before operator set 11, where the bounds are attributes. */
static bool clip_by_attributes(const mp_fold *f)
{
    const mp_operator *op = f->c->op;
    const mp_value low = {.n = 1, .is_real = true, .f = (double[]){mp_operator_float(op, "min", -INFINITY)}},
                   high = {.n = 1, .is_real = true, .f = (double[]){mp_operator_float(op, "max", INFINITY)}};
    const mp_binary *max = mp_binary_find("Max"), *min = mp_binary_find("Min");
    bool defined = f->y->is_real;
    for (int64_t k = 0; k < f->y->n && defined; k++)
        defined = mp_binary_into(max, f->out->dtype, f->y, k, &low, 0) && mp_binary_into(min, f->out->dtype, f->y, k, &high, 0);
    return defined;
}

/* Combines the first operand with all others, one after the other. steps[0] is the function for operand 1, steps[1] for all
 * later operands. */
bool mp_fold_variadic(const mp_fold *f)
{
    static const struct {
        const char *name, *steps[2];
        bool mean;
    } kinds[] = {{"Max", {"Max", "Max"}, false},
                 {"Min", {"Min", "Min"}, false},
                 {"Sum", {"Add", "Add"}, false},
                 {"Mean", {"Add", "Add"}, true},
                 {"Clip", {"Max", "Min"}, false}};
    const mp_operator *op = f->c->op;
    size_t kind = 0;
    mp_walk walk;
    while (strcmp(kinds[kind].name, op->kind))
        if (++kind == sizeof kinds / sizeof *kinds) return false;
    mp_walk_start(&walk, f->out->rank, f->out->dims);
    if (!mp_walk_broadcast(&walk, 0, f->in->rank, f->in->dims)) return false;
    for (; walk.k < walk.n; mp_walk_next(&walk)) mp_fold_move(f->y, walk.k, f->x, walk.at[0]);
    for (int k = 1; k < op->n_in; k++)
        if (mp_infer_in(f->c, k) && !accumulate(f, mp_binary_find(kinds[kind].steps[k > 1]), k)) return false;
    if (!strcmp(op->kind, "Clip") && op->version < 11) return clip_by_attributes(f);
    if (!kinds[kind].mean) return true;
    for (int64_t k = 0; f->y->is_real && k < f->y->n; k++) f->y->f[k] = mp_fold_round(f->out->dtype, f->y->f[k] / op->n_in);
    return f->y->is_real;
}

bool mp_fold_where(const mp_fold *f)
{
    const mp_value *const in[] = {f->x, mp_fold_in(f->c, 1), mp_fold_in(f->c, 2)};
    mp_walk walk;
    mp_walk_start(&walk, f->out->rank, f->out->dims);
    for (int k = 0; k < 3; k++)
        if (!mp_walk_broadcast(&walk, k, mp_infer_in(f->c, k)->rank, mp_infer_in(f->c, k)->dims)) return false;
    for (; walk.k < walk.n; mp_walk_next(&walk)) {
        const int taken = f->x->i[walk.at[0]] ? 1 : 2;
        mp_fold_move(f->y, walk.k, in[taken], walk.at[taken]);
    }
    return true;
}

bool mp_fold_cast(const mp_fold *f)
{
    bool defined = true;
    for (int64_t k = 0; k < f->x->n && defined; k++) {
        if (f->x->is_real || f->y->is_real)
            defined = mp_fold_store(f->out->dtype, f->y, k, mp_fold_real(f->in->dtype, f->x, k));
        else
            f->y->i[k] = mp_fold_wrap(f->out->dtype, mp_fold_widen(f->in->dtype, f->x->i[k]));
    }
    return defined;
}
