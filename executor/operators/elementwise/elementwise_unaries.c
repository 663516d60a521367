/* elementwise_unaries.c - elementwise functions of one operand, and their gradients: prepares calls for the rows of
 * elementwise.def. */
#include "executor/operators/elementwise/elementwise.h"

#include <math.h>
#include <string.h>

enum { PARAMETERS = MP_FORMULA_PARAMETERS };

/* A parameter of a formula: the name of the operator's attribute, and the default value. */
typedef struct parameter {
    const char *name;
    double otherwise;
} parameter;

typedef struct unary {
    const char *kind, *domain;
    mp_formula forward, backward;
    mp_whole_formula whole;
    parameter parameters[PARAMETERS];
} unary;

#define UNARY_OP(kind, domain, f, slope, whole, ...) \
    {kind, domain, MP_FORMULA_##f, MP_FORMULA_##slope, MP_WHOLE_##whole, {__VA_ARGS__}},
static const unary unaries[] = {
#include "executor/operators/elementwise/elementwise.def"
};

/* The row of Gelu with the attribute approximate = "tanh". */
static const unary tanh_gelu = {"Gelu", "", MP_FORMULA_tanh_gelu, MP_FORMULA_tanh_gelu_slope, MP_WHOLE_none, {{0}}};

static const unary *find(const mp_operator *op)
{
    if (!strcmp(mp_operator_text(op, "approximate", "none"), "tanh")) return &tanh_gelu;
    for (size_t k = 0; k < sizeof unaries / sizeof *unaries; k++)
        if (!strcmp(unaries[k].kind, op->op->name) && !strcmp(unaries[k].domain, op->op->domain)) return &unaries[k];
    return NULL;
}

typedef struct state {
    const mp_engine *engine;
    mp_formula formula;
    mp_whole_formula whole; /* the formula for integers; MP_WHOLE_none: integers also use `formula` */
    double parameters[PARAMETERS];
    int lower, upper; /* for Clip with a bound computed at run time: indices of the inputs that contain the bounds; 0: absent */
} state;

/* Runs Clip with bounds that are computed at run time. If a bound is absent, x is passed in its place, and a parameter
 * disables the bound. */
static mp_status run_between(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const mp_array *v = &x->in[0];
    const mp_array *lower = s->lower ? &x->in[s->lower] : v, *upper = s->upper ? &x->in[s->upper] : v;
    const double absent[PARAMETERS] = {lower == v, upper == v};
    if (x->is_backward) {
        const mp_array *in[] = {&x->d_out[0], v, lower, upper};
        s->engine->floats(MP_FORMULA_clip_between_slope, absent, in, 4, &x->d_in[0]);
    } else {
        const mp_array *in[] = {v, lower, upper};
        if (s->whole)
            s->engine->whole(MP_WHOLE_clip_between, absent, in, 3, &x->out[0]);
        else
            s->engine->floats(MP_FORMULA_clip_between, absent, in, 3, &x->out[0]);
    }
    return s->engine->end(err);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const mp_array *in[] = {&x->in[0]};
    if (s->whole)
        s->engine->whole(s->whole, s->parameters, in, 1, &x->out[0]);
    else
        s->engine->floats(s->formula, s->parameters, in, 1, &x->out[0]);
    return s->engine->end(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const mp_array *v = x->in[0].data ? &x->in[0] : x->out[0].data ? &x->out[0] : &x->d_out[0];
    if (x->op->op->needs[MP_RULES_EXECUTOR][0] == MP_OUT(0)) v = &x->out[0];
    const mp_array *in[] = {&x->d_out[0], v};
    s->engine->floats(s->formula, s->parameters, in, 2, &x->d_in[0]);
    return s->engine->end(err);
}

/* True for integers and booleans. */
static bool is_whole(mp_dtype dtype)
{
    return mp_dtype_is_integer(dtype) || dtype == MP_DTYPE_BOOL;
}

static double scalar(const mp_array *a)
{
    return a->dtype == MP_DTYPE_INT64 ? (double)*(const int64_t *)a->data : (double)mp_load_float(a->data, a->dtype, 0);
}

/* Reads the parameters from attributes; for Clip, since operator set 11, from constant operands. Computed operands are read
 * when the call runs. */
static void read_parameters(const unary *u, const mp_operands *x, state *s)
{
    bool computed = false;
    for (int k = 0; k < PARAMETERS; k++) {
        const parameter *p = &u->parameters[k];
        if (!p->name) continue;
        const mp_attribute *a = mp_operator_attribute(x->op, p->name);
        s->parameters[k] = !a ? p->otherwise : a->kind == MP_ATTRIBUTE_INT ? (double)a->i : a->f;
        bool bound = u->whole == MP_WHOLE_clip && x->n_in > k + 1 && x->in[k + 1].dtype;
        if (bound && x->in[k + 1].data) s->parameters[k] = scalar(&x->in[k + 1]);
        computed |= bound && !x->in[k + 1].data;
    }
    if (computed && x->in[1].dtype) s->lower = 1;
    if (computed && x->n_in > 2 && x->in[2].dtype) s->upper = 2;
}

mp_status mp_unary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err)
{
    const unary *u = find(x->op);
    const mp_array *y = x->is_backward ? &x->d_in[0] : &x->out[0];
    bool casts = u->whole == MP_WHOLE_copy && x->op->op->gradient != MP_GRADIENT_NONE;
    if (!mp_elementwise_knows(x->in[0].dtype) || !mp_elementwise_knows(y->dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].dtype == MP_DTYPE_DOUBLE && !casts)
        return MP_NO_KERNEL(x, err, "its type"); /* the type DOUBLE is refused, because the formulas compute in float */
    MP_STATE(state, s, call, err);
    *s = (state){.engine = engine, .formula = x->is_backward ? u->backward : u->forward};
    if (!x->is_backward && is_whole(x->in[0].dtype) && (is_whole(y->dtype) || !s->formula)) s->whole = u->whole;
    if (!s->whole && !s->formula) return MP_NO_KERNEL(x, err, "its type");
    read_parameters(u, x, s);
    if (x->is_backward && (s->lower || s->upper) && !(x->op->op->needs[MP_RULES_EXECUTOR][0] & MP_IN(0)))
        return MP_NO_KERNEL(x, err, "a bound that is computed");
    call->run = s->lower || s->upper ? run_between : x->is_backward ? run_backward : run_forward;
    return MP_OK;
}
