/* unaries.c - functions of one operand, element by element, and their derivatives.
 *
 * A row of the table gives f(x), and the gradient as a function of (dy, v), where v is the value that ops.def says backward
 * reads: x, or y = f(x). Parameters are the operator's attributes, read once.
 */
#include <math.h>
#include <string.h>

#include "executor/cpu/elementwise.h"
#include "executor/cpu/kernels.h"
#include "executor/vector_math.h"

enum { PARAMETERS = 3 };

/* One row: NAME(parameters p, n, in, out) with x = in[0]; for gradients g = in[0] and v = in[1]. */
#define FORWARD(name, expression)                                                              \
    MP_VECTOR static void name(const double *p, int64_t n, const float *const *in, float *out) \
    {                                                                                          \
        const float a = (float)p[0], b = (float)p[1], c = (float)p[2];                         \
        const float *xs = in[0];                                                               \
        (void)a, (void)b, (void)c;                                                             \
        MP_INDEPENDENT for (int64_t k = 0; k < n; k++)                                         \
        {                                                                                      \
            const float x = xs[k];                                                             \
            out[k] = (expression);                                                             \
        }                                                                                      \
    }
#define BACKWARD(name, expression)                                                             \
    MP_VECTOR static void name(const double *p, int64_t n, const float *const *in, float *out) \
    {                                                                                          \
        const float a = (float)p[0], b = (float)p[1], c = (float)p[2];                         \
        const float *gs = in[0], *vs = in[1];                                                  \
        (void)a, (void)b, (void)c;                                                             \
        MP_INDEPENDENT for (int64_t k = 0; k < n; k++)                                         \
        {                                                                                      \
            const float g = gs[k], v = vs[k];                                                  \
            (void)v;                                                                           \
            out[k] = (expression);                                                             \
        }                                                                                      \
    }
/* Both, from formulas of x and of (g, v). */
#define PAIR(name, f, df)      \
    FORWARD(name##_forward, f) \
    BACKWARD(name##_backward, df)

static const float sqrt_2_over_pi = 0.7978845608028654f, inv_sqrt_2 = 0.7071067811865475f,
                   two_over_sqrt_pi = 1.1283791670955126f;

/* Into [0, 1]. */
static inline __attribute__((always_inline)) float unit(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
static inline __attribute__((always_inline)) float gelu_slope(float v)
{
    return 0.5f * (1 + mp_erf(v * inv_sqrt_2)) + v * 0.3989422804014327f * mp_exp(-0.5f * v * v);
}
static inline __attribute__((always_inline)) float tanh_gelu_slope(float v)
{
    float t = mp_tanh(sqrt_2_over_pi * (v + 0.044715f * v * v * v));
    return 0.5f * (1 + t) + 0.5f * v * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * 0.044715f * v * v);
}
static inline __attribute__((always_inline)) float swish_slope(float v, float a)
{
    float s = mp_sigmoid(a * v);
    return s + a * v * s * (1 - s);
}
/* ln(1 + e^x) without overflow. */
static inline float softplus(float x)
{
    return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}
static inline float mish_slope(float v)
{
    float t = tanhf(softplus(v));
    return t + v * (1 - t * t) / (1 + expf(-v));
}

PAIR(relu, x<0 ? 0 : x, v> 0 ? g : 0) /* lets a NaN through */
PAIR(leaky_relu, x >= 0 ? x : a * x, v > 0 ? g : a * g)
PAIR(elu, x > 0 ? x : a * (mp_exp(x) - 1), v > 0 ? g : g * (v + a))
PAIR(selu, x > 0 ? b * x : b * (a * mp_exp(x) - a), v > 0 ? g * b : g * (v + a * b))
PAIR(celu, x > 0 ? x : a * (mp_exp(x / a) - 1), v > 0 ? g : g * (v / a + 1))
PAIR(thresholded_relu, x > a ? x : 0, v > a ? g : 0)
PAIR(sigmoid, mp_sigmoid(x), g *v *(1 - v))
PAIR(tanh, mp_tanh(x), g *(1 - v * v))
PAIR(exp, x > 88.7f ? INFINITY : x < -87.3f ? expf(x) : mp_exp(x), g *v)
PAIR(sqrt, sqrtf(x), g / (2 * v))
PAIR(reciprocal, 1 / x, -g *v *v)
PAIR(hard_sigmoid, unit(a *x + b), v > 0 && v < 1 ? a * g : 0)
PAIR(hard_swish, x *unit(x / 6 + 0.5f), v <= -3 ? 0 : v >= 3 ? g : g * (v / 3 + 0.5f))
PAIR(softplus, softplus(x), g * -expm1f(-v))
PAIR(softsign, x / (1 + fabsf(x)), g / ((1 + fabsf(v)) * (1 + fabsf(v))))
PAIR(mish, x *tanhf(softplus(x)), g *mish_slope(v))
PAIR(swish, x *mp_sigmoid(a *x), g *swish_slope(v, a))
PAIR(gelu, 0.5f * x * (1 + mp_erf(x * inv_sqrt_2)), g *gelu_slope(v))
PAIR(tanh_gelu, 0.5f * x * (1 + mp_tanh(sqrt_2_over_pi * (x + 0.044715f * x * x * x))), g *tanh_gelu_slope(v))
PAIR(log, logf(x), g / v)
PAIR(neg, -x, -g)
PAIR(abs, fabsf(x), v > 0 ? g : v < 0 ? -g : 0)
PAIR(erf, mp_erf(x), g *two_over_sqrt_pi *mp_exp(-v *v))
PAIR(shrink, x<-a ? x + b : x> a ? x - b : 0, v<-a || v> a ? g : 0)
PAIR(sin, sinf(x), g *cosf(v))
PAIR(cos, cosf(x), -g *sinf(v))
PAIR(tan, tanf(x), g *(1 + v * v))
PAIR(asin, asinf(x), g / sqrtf(1 - v * v))
PAIR(acos, acosf(x), -g / sqrtf(1 - v * v))
PAIR(atan, atanf(x), g / (1 + v * v))
PAIR(sinh, sinhf(x), g *coshf(v))
PAIR(cosh, coshf(x), g *sinhf(v))
PAIR(asinh, asinhf(x), g / sqrtf(1 + v * v))
PAIR(acosh, acoshf(x), g / sqrtf(v * v - 1))
PAIR(atanh, atanhf(x), g / (1 - v * v))
PAIR(clip, x<a ? a : x> b ? b : x, v > a && v < b ? g : 0)
PAIR(copy, x, g)
FORWARD(sign_forward, x > 0 ? 1 : x < 0 ? -1 : x)
FORWARD(floor_forward, floorf(x))
FORWARD(ceil_forward, ceilf(x))
FORWARD(round_forward, rintf(x)) /* ties to even */
FORWARD(is_nan_forward, x != x)
FORWARD(is_inf_forward, (isinf(x) && ((x > 0 && a != 0) || (x < 0 && b != 0))))

#define WHOLE(name, expression)                                                          \
    static void name(const double *p, int64_t n, const int64_t *const *in, int64_t *out) \
    {                                                                                    \
        (void)p;                                                                         \
        for (int64_t k = 0; k < n; k++) {                                                \
            const int64_t x = in[0][k];                                                  \
            out[k] = (expression);                                                       \
        }                                                                                \
    }
WHOLE(whole_copy, x)
WHOLE(whole_neg, -x)
WHOLE(whole_abs, x < 0 ? -x : x)
WHOLE(whole_sign, (x > 0) - (x < 0))
WHOLE(whole_not, !x)
WHOLE(whole_bitwise_not, ~x)
WHOLE(whole_relu, x > 0 ? x : 0)
WHOLE(whole_clip, (double)x<p[0] ? (int64_t)p[0] : (double)x> p[1] ? (int64_t)p[1] : x)

/* How the parameters of a row are read. */
typedef struct parameter {
    const char *name;
    double otherwise;
} parameter;

typedef struct unary {
    const char *kind, *domain;
    mp_row forward, backward;
    mp_whole_row whole;
    parameter parameters[PARAMETERS];
} unary;

static const unary unaries[] = {
    {"Relu", "", relu_forward, relu_backward, whole_relu, {{0}}},
    {"LeakyRelu", "", leaky_relu_forward, leaky_relu_backward, NULL, {{"alpha", 0.01}}},
    {"Elu", "", elu_forward, elu_backward, NULL, {{"alpha", 1}}},
    {"Selu",
     "",
     selu_forward,
     selu_backward,
     NULL,
     {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}},
    {"Celu", "", celu_forward, celu_backward, NULL, {{"alpha", 1}}},
    {"ThresholdedRelu", "", thresholded_relu_forward, thresholded_relu_backward, NULL, {{"alpha", 1}}},
    {"Sigmoid", "", sigmoid_forward, sigmoid_backward, NULL, {{0}}},
    {"Tanh", "", tanh_forward, tanh_backward, NULL, {{0}}},
    {"Exp", "", exp_forward, exp_backward, NULL, {{0}}},
    {"Sqrt", "", sqrt_forward, sqrt_backward, NULL, {{0}}},
    {"Reciprocal", "", reciprocal_forward, reciprocal_backward, NULL, {{0}}},
    {"HardSigmoid", "", hard_sigmoid_forward, hard_sigmoid_backward, NULL, {{"alpha", 0.2f}, {"beta", 0.5}}},
    {"HardSwish", "", hard_swish_forward, hard_swish_backward, NULL, {{0}}},
    {"Softplus", "", softplus_forward, softplus_backward, NULL, {{0}}},
    {"Softsign", "", softsign_forward, softsign_backward, NULL, {{0}}},
    {"Mish", "", mish_forward, mish_backward, NULL, {{0}}},
    {"Swish", "", swish_forward, swish_backward, NULL, {{"alpha", 1}}},
    {"Gelu", "", gelu_forward, gelu_backward, NULL, {{0}}},
    {"Gelu", "com.microsoft", gelu_forward, gelu_backward, NULL, {{0}}},
    {"QuickGelu", "com.microsoft", swish_forward, swish_backward, NULL, {{"alpha", 1.702}}},
    {"Log", "", log_forward, log_backward, NULL, {{0}}},
    {"Neg", "", neg_forward, neg_backward, whole_neg, {{0}}},
    {"Abs", "", abs_forward, abs_backward, whole_abs, {{0}}},
    {"Erf", "", erf_forward, erf_backward, NULL, {{0}}},
    {"Shrink", "", shrink_forward, shrink_backward, NULL, {{"lambd", 0.5}, {"bias", 0}}},
    {"Sin", "", sin_forward, sin_backward, NULL, {{0}}},
    {"Cos", "", cos_forward, cos_backward, NULL, {{0}}},
    {"Tan", "", tan_forward, tan_backward, NULL, {{0}}},
    {"Asin", "", asin_forward, asin_backward, NULL, {{0}}},
    {"Acos", "", acos_forward, acos_backward, NULL, {{0}}},
    {"Atan", "", atan_forward, atan_backward, NULL, {{0}}},
    {"Sinh", "", sinh_forward, sinh_backward, NULL, {{0}}},
    {"Cosh", "", cosh_forward, cosh_backward, NULL, {{0}}},
    {"Asinh", "", asinh_forward, asinh_backward, NULL, {{0}}},
    {"Acosh", "", acosh_forward, acosh_backward, NULL, {{0}}},
    {"Atanh", "", atanh_forward, atanh_backward, NULL, {{0}}},
    {"Sign", "", sign_forward, NULL, whole_sign, {{0}}},
    {"Floor", "", floor_forward, NULL, whole_copy, {{0}}},
    {"Ceil", "", ceil_forward, NULL, whole_copy, {{0}}},
    {"Round", "", round_forward, NULL, whole_copy, {{0}}},
    {"Not", "", NULL, NULL, whole_not, {{0}}},
    {"BitwiseNot", "", NULL, NULL, whole_bitwise_not, {{0}}},
    {"IsNaN", "", is_nan_forward, NULL, NULL, {{0}}},
    {"IsInf", "", is_inf_forward, NULL, NULL, {{"detect_positive", 1}, {"detect_negative", 1}}},
    {"Cast", "", copy_forward, copy_backward, whole_copy, {{0}}},
    {"CastLike", "", copy_forward, copy_backward, whole_copy, {{0}}},
    {"Identity", "", copy_forward, NULL, whole_copy, {{0}}},
    {"Clip", "", clip_forward, clip_backward, whole_clip, {{"min", -INFINITY}, {"max", INFINITY}}},
};

/* Gelu with approximate = tanh. */
static const unary tanh_gelu = {"Gelu", "", tanh_gelu_forward, tanh_gelu_backward, NULL, {{0}}};

static const unary *find(const mp_operator *op)
{
    if (!strcmp(mp_operator_text(op, "approximate", "none"), "tanh")) return &tanh_gelu;
    for (size_t k = 0; k < sizeof unaries / sizeof *unaries; k++)
        if (!strcmp(unaries[k].kind, op->op->name) && !strcmp(unaries[k].domain, op->op->domain)) return &unaries[k];
    return NULL;
}

typedef struct state {
    mp_row row;
    mp_whole_row whole;
    double parameters[PARAMETERS];
    int bound[PARAMETERS]; /* Clip: the inputs that give parameters; -1: none */
} state;

static double scalar(const mp_array *a)
{
    static const double none[PARAMETERS] = {0};
    float value = 0;
    mp_array to = mp_array_plain(MP_DTYPE_FLOAT, 0, NULL);
    if (a->dtype == MP_DTYPE_INT64) return (double)*(const int64_t *)a->data;
    to.data = &value;
    mp_elementwise(copy_forward, none, &a, 1, &to);
    return (double)value;
}

/* The parameters of this run: bounds of Clip may be operands. */
static void settle(const state *s, const mp_operands *x, double parameters[PARAMETERS])
{
    memcpy(parameters, s->parameters, sizeof s->parameters);
    for (int k = 0; k < PARAMETERS; k++)
        if (s->bound[k] >= 0 && x->in[s->bound[k]].data) parameters[k] = scalar(&x->in[s->bound[k]]);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    const mp_array *in[] = {&x->in[0]};
    double parameters[PARAMETERS];
    (void)run, (void)err;
    settle(s, x, parameters);
    if (s->whole)
        mp_elementwise_whole(s->whole, parameters, in, 1, &x->out[0]);
    else
        mp_elementwise(s->row, parameters, in, 1, &x->out[0]);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    const mp_array *v = x->in[0].data ? &x->in[0] : x->out[0].data ? &x->out[0] : &x->d_out[0];
    if (x->op->op->needs[MP_RULES_EXECUTOR][0] == MP_OUT(0)) v = &x->out[0];
    const mp_array *in[] = {&x->d_out[0], v};
    double parameters[PARAMETERS];
    (void)run, (void)err;
    settle(s, x, parameters);
    mp_elementwise(s->row, parameters, in, 2, &x->d_in[0]);
    return MP_OK;
}

/* Whole numbers are computed as such, unless a cast turns them into something else. */
static bool is_whole(mp_dtype dtype)
{
    return mp_dtype_is_integer(dtype) || dtype == MP_DTYPE_BOOL;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const unary *u = find(x->op);
    const mp_array *y = x->is_backward ? &x->d_in[0] : &x->out[0];
    state *s;
    bool casts = u->whole == whole_copy && x->op->op->gradient != MP_GRADIENT_NONE;
    if (!mp_elementwise_knows(x->in[0].dtype) || !mp_elementwise_knows(y->dtype)) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].dtype == MP_DTYPE_DOUBLE && !casts) return MP_NO_KERNEL(x, err, "its type"); /* floats are the widest here */
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    s->row = x->is_backward ? u->backward : u->forward;
    if (!x->is_backward && is_whole(x->in[0].dtype) && (is_whole(y->dtype) || !s->row)) s->whole = u->whole;
    if (!s->whole && !s->row) return MP_NO_KERNEL(x, err, "its type");
    for (int k = 0; k < PARAMETERS; k++) {
        const parameter *p = &u->parameters[k];
        s->bound[k] = -1;
        if (!p->name) continue;
        const mp_attribute *a = mp_operator_attribute(x->op, p->name);
        s->parameters[k] = !a ? p->otherwise : a->kind == MP_ATTRIBUTE_INT ? (double)a->i : a->f;
        if (u->whole == whole_clip && x->n_in > k + 1 && x->in[k + 1].dtype) s->bound[k] = k + 1;
    }
done:
    return st;
}

const mp_kernel mp_cpu_unaries[] = {
    {"Relu", "", prepare, prepare},
    {"LeakyRelu", "", prepare, prepare},
    {"Elu", "", prepare, prepare},
    {"Selu", "", prepare, prepare},
    {"Celu", "", prepare, prepare},
    {"ThresholdedRelu", "", prepare, prepare},
    {"Sigmoid", "", prepare, prepare},
    {"Tanh", "", prepare, prepare},
    {"Exp", "", prepare, prepare},
    {"Sqrt", "", prepare, prepare},
    {"Reciprocal", "", prepare, prepare},
    {"HardSigmoid", "", prepare, prepare},
    {"HardSwish", "", prepare, prepare},
    {"Softplus", "", prepare, prepare},
    {"Softsign", "", prepare, prepare},
    {"Mish", "", prepare, prepare},
    {"Swish", "", prepare, prepare},
    {"Gelu", "", prepare, prepare},
    {"Gelu", "com.microsoft", prepare, prepare},
    {"QuickGelu", "com.microsoft", prepare, prepare},
    {"Log", "", prepare, prepare},
    {"Neg", "", prepare, prepare},
    {"Abs", "", prepare, prepare},
    {"Erf", "", prepare, prepare},
    {"Shrink", "", prepare, prepare},
    {"Sin", "", prepare, prepare},
    {"Cos", "", prepare, prepare},
    {"Tan", "", prepare, prepare},
    {"Asin", "", prepare, prepare},
    {"Acos", "", prepare, prepare},
    {"Atan", "", prepare, prepare},
    {"Sinh", "", prepare, prepare},
    {"Cosh", "", prepare, prepare},
    {"Asinh", "", prepare, prepare},
    {"Acosh", "", prepare, prepare},
    {"Atanh", "", prepare, prepare},
    {"Sign", "", prepare, NULL},
    {"Floor", "", prepare, NULL},
    {"Ceil", "", prepare, NULL},
    {"Round", "", prepare, NULL},
    {"Not", "", prepare, NULL},
    {"BitwiseNot", "", prepare, NULL},
    {"IsNaN", "", prepare, NULL},
    {"IsInf", "", prepare, NULL},
    {"Cast", "", prepare, prepare},
    {"CastLike", "", prepare, prepare},
    {"Clip", "", prepare, prepare},
    {"Identity", "", prepare, NULL},
    {0},
};
