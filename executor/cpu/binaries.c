/* binaries.c - functions of several operands that broadcast, and their gradients.
 *
 * The gradient of an operand is a function of dy and what ops.def lets backward read, computed in the shape of the output and
 * summed over the dimensions in which the operand was broadcast. Where an operand has the output's shape it is written at once;
 * else the terms go through the workspace.
 */
#include <math.h>
#include <string.h>

#include "executor/cpu/elementwise.h"
#include "executor/cpu/kernels.h"
#include "executor/vector_math.h"

/* A row over a = in[0], b = in[1]; of gradients over g = in[0], a = in[1], b = in[2], y = in[3]. */
#define FORWARD(name, expression)                                                              \
    MP_VECTOR static void name(const double *p, int64_t n, const float *const *in, float *out) \
    {                                                                                          \
        const float *as = in[0], *bs = in[1];                                                  \
        (void)p;                                                                               \
        MP_INDEPENDENT                                                                         \
        for (int64_t k = 0; k < n; k++) {                                                      \
            const float a = as[k], b = bs[k];                                                  \
            out[k] = (expression);                                                             \
        }                                                                                      \
    }
#define GRADIENT(name, expression)                                                             \
    MP_VECTOR static void name(const double *p, int64_t n, const float *const *in, float *out) \
    {                                                                                          \
        const float *gs = in[0], *as = in[1], *bs = in[2], *ys = in[3];                        \
        (void)p;                                                                               \
        MP_INDEPENDENT                                                                         \
        for (int64_t k = 0; k < n; k++) {                                                      \
            const float g = gs[k], a = as[k], b = bs[k], y = ys[k];                            \
            (void)a, (void)b, (void)y;                                                         \
            out[k] = (expression);                                                             \
        }                                                                                      \
    }
#define WHOLE(name, expression)                                                          \
    static void name(const double *p, int64_t n, const int64_t *const *in, int64_t *out) \
    {                                                                                    \
        (void)p;                                                                         \
        for (int64_t k = 0; k < n; k++) {                                                \
            const int64_t a = in[0][k], b = in[1][k];                                    \
            out[k] = (expression);                                                       \
        }                                                                                \
    }

FORWARD(add, a + b)
FORWARD(sub, a - b)
FORWARD(mul, a *b)
FORWARD(divide, a / b)
FORWARD(power, b == 2 ? a * a : b == 0.5f ? sqrtf(a) : powf(a, b))
FORWARD(prelu, a >= 0 ? a : a * b)
FORWARD(mod, p[0] != 0 ? fmodf(a, b) : a - floorf(a / b) * b)
FORWARD(maximum, a > b || a != a ? a : b)
FORWARD(minimum, a < b || a != a ? a : b)
FORWARD(equal, a == b)
FORWARD(greater, a > b)
FORWARD(less, a < b)
FORWARD(greater_or_equal, a >= b)
FORWARD(less_or_equal, a <= b)

GRADIENT(pass, g)
GRADIENT(pass_negated, -g)
GRADIENT(mul_a, g *b)
GRADIENT(mul_b, g *a)
GRADIENT(divide_a, g / b)
GRADIENT(divide_b, -g *y / b)
GRADIENT(power_a, b == 2 ? 2 * g * a : b == 0 ? 0 : g * b * powf(a, b - 1))
GRADIENT(power_b, a > 0 ? g * y * logf(a) : 0)
GRADIENT(prelu_a, a > 0 ? g : g * b)
GRADIENT(prelu_b, a > 0 ? 0 : g * a)
GRADIENT(scaled, g *(float)p[0])

WHOLE(whole_add, a + b)
WHOLE(whole_sub, a - b)
WHOLE(whole_mul, a *b)
WHOLE(whole_divide, b ? a / b : 0)
WHOLE(whole_mod, !b ? 0 : p[0] != 0 || a % b == 0 || (a % b < 0) == (b < 0) ? a % b : a % b + b)
WHOLE(whole_maximum, a > b ? a : b)
WHOLE(whole_minimum, a < b ? a : b)
WHOLE(whole_equal, a == b)
WHOLE(whole_greater, a > b)
WHOLE(whole_less, a < b)
WHOLE(whole_greater_or_equal, a >= b)
WHOLE(whole_less_or_equal, a <= b)
WHOLE(whole_and, a &b)
WHOLE(whole_or, a | b)
WHOLE(whole_xor, a ^ b)
WHOLE(shift_left, b > 63 ? 0 : (int64_t)((uint64_t)a << b))
WHOLE(shift_right, b > 63 ? 0 : (int64_t)((uint64_t)a >> b))

static int64_t whole_power_of(int64_t a, int64_t b)
{
    int64_t y = 1;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (; b; b >>= 1, a = (int64_t)((uint64_t)a * (uint64_t)a))
        if (b & 1) y = (int64_t)((uint64_t)y * (uint64_t)a);
    return y;
}
WHOLE(whole_power, whole_power_of(a, b))

/* What is different about a row. (Rows are not told apart by the addresses of their functions: of a function that is compiled
 * several times there is no single one.) */
enum { ADDS = 1, AVERAGES = 2, PICKS = 4, SHIFTS = 8, SLOPES = 16 };

typedef struct binary {
    const char *kind;
    mp_row forward, gradient[2];
    mp_whole_row whole;
    unsigned traits;
} binary;

static const binary binaries[] = {
    {"Add", add, {pass, pass}, whole_add, ADDS},
    {"Sub", sub, {pass, pass_negated}, whole_sub, 0},
    {"Mul", mul, {mul_a, mul_b}, whole_mul, 0},
    {"Div", divide, {divide_a, divide_b}, whole_divide, 0},
    {"Pow", power, {power_a, power_b}, whole_power, 0},
    {"PRelu", prelu, {prelu_a, prelu_b}, NULL, SLOPES},
    {"Mod", mod, {NULL, NULL}, whole_mod, 0},
    {"Sum", add, {pass, pass}, whole_add, ADDS},
    {"Mean", add, {scaled, scaled}, NULL, AVERAGES},
    {"Max", maximum, {NULL, NULL}, whole_maximum, PICKS},
    {"Min", minimum, {NULL, NULL}, whole_minimum, PICKS},
    {"Equal", equal, {NULL, NULL}, whole_equal, 0},
    {"Greater", greater, {NULL, NULL}, whole_greater, 0},
    {"Less", less, {NULL, NULL}, whole_less, 0},
    {"GreaterOrEqual", greater_or_equal, {NULL, NULL}, whole_greater_or_equal, 0},
    {"LessOrEqual", less_or_equal, {NULL, NULL}, whole_less_or_equal, 0},
    {"And", NULL, {NULL, NULL}, whole_and, 0},
    {"Or", NULL, {NULL, NULL}, whole_or, 0},
    {"Xor", NULL, {NULL, NULL}, whole_xor, 0},
    {"BitwiseAnd", NULL, {NULL, NULL}, whole_and, 0},
    {"BitwiseOr", NULL, {NULL, NULL}, whole_or, 0},
    {"BitwiseXor", NULL, {NULL, NULL}, whole_xor, 0},
    {"BitShift", NULL, {NULL, NULL}, shift_left, SHIFTS},
};

static const binary *find(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof binaries / sizeof *binaries; k++)
        if (!strcmp(binaries[k].kind, op->op->name)) return &binaries[k];
    return NULL;
}

typedef struct state {
    const binary *b;
    mp_whole_row whole;
    double parameters[1];
    mp_array *operands; /* the inputs, as they broadcast */
    int64_t slot_bytes; /* of one operand's terms in the workspace */
    mp_pool *pool;
} state;

static void release(mp_call *call)
{
    mp_pool_free(((state *)call->state)->pool);
}

/* Input k with the axes it meant before operator set 7, or PRelu's slope over channels: dimensions of size 1 behind its own. */
static mp_array operand(const mp_operands *x, const state *s, int k)
{
    mp_array a = s->operands[k];
    a.data = x->in[k].data;
    return a;
}

static bool same_shape(const mp_array *a, const mp_array *b)
{
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->dims[d] == b->dims[d];
    return same;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    const mp_array *y = &x->out[0];
    static const double once[] = {1};
    (void)run, (void)err;
    mp_array first = operand(x, s, 0), partial = *y;
    partial.data = x->workspace;
    for (int k = 1; k < x->n_in || (k == 1 && x->n_in == 1); k++) {
        mp_array second = k < x->n_in ? operand(x, s, k) : first;
        const mp_array *in[] = {&first, &second}, *to = k + 1 < x->n_in ? &partial : y;
        if (x->n_in == 1) /* Sum, Mean, Max, Min of one */
            mp_elementwise(maximum, once, in, 2, to);
        else if (s->whole)
            mp_elementwise_whole(s->whole, s->parameters, in, 2, to);
        else
            mp_elementwise(s->b->forward, s->parameters, in, 2, to);
        first = partial;
    }
    if ((s->b->traits & AVERAGES) && x->n_in > 1) {
        double part = 1.0 / x->n_in;
        const mp_array *in[] = {y, y, y, y};
        mp_elementwise(scaled, &part, in, 4, y);
    }
    return MP_OK;
}

/* The gradient of operand i from `terms`, which have the output's shape: summed to its shape. */
static mp_array target_of(const mp_operands *x, const state *s, int i)
{
    mp_array d = s->operands[i];
    d.dtype = x->d_in[i].dtype;
    d.data = x->d_in[i].data;
    return d;
}

static mp_array terms_of(const mp_operands *x, mp_dtype dtype)
{
    mp_array t = x->d_out[0];
    t.dtype = dtype;
    t.data = x->workspace;
    return t;
}

/* Max and Min give the gradient to every operand that is the result. */
static void share(const double *p, int64_t n, const float *const *in, float *out)
{
    (void)p;
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = in[1][k] == in[3][k] ? in[0][k] : 0;
}

/* Whether writing to d spoils what a later gradient of the same node reads. */
static bool spoils(const mp_operands *x, const mp_array *d)
{
    bool spoils = d->data == x->d_out[0].data || d->data == x->out[0].data;
    for (int k = 0; k < x->n_in; k++) spoils |= d->data == x->in[k].data;
    return spoils;
}

/* The terms of operand i's gradient, in the output's shape. */
static void run_terms(const state *s, const mp_operands *x, int i, const mp_array *to)
{
    bool picks = s->b->traits & PICKS;
    mp_array a = operand(x, s, picks ? i : 0), b = operand(x, s, x->n_in > 1 ? 1 : 0);
    const mp_array *g = &x->d_out[0];
    const mp_array *in[] = {g, a.data ? &a : g, b.data && !picks ? &b : g, x->out[0].data ? &x->out[0] : g};
    mp_elementwise(picks ? share : s->b->gradient[i < 1 ? 0 : 1], s->parameters, in, 4, to);
}

/* A gradient that lies where a later one's terms are read waits in a slot of the workspace until all are computed. */
static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    mp_array waiting[64];
    int waits_for[64], n_waiting = 0;
    (void)run, (void)err;
    for (int i = x->from; i < x->to; i++) {
        if (!x->d_in[i].dtype) continue;
        mp_array d = target_of(x, s, i), terms = terms_of(x, d.dtype);
        bool whole = same_shape(&d, &x->d_out[0]), add = x->adds & call->adds & MP_BIT(i), later = false;
        for (int j = i + 1; j < x->to; j++) later |= x->d_in[j].dtype != MP_DTYPE_UNDEFINED;
        terms.data = (char *)x->workspace + n_waiting * s->slot_bytes;
        if ((s->b->traits & ADDS) && !whole) {
            mp_sum_to(&x->d_out[0], &d, 1, add);
        } else if (whole && !(later && spoils(x, &d))) {
            run_terms(s, x, i, &d);
        } else {
            run_terms(s, x, i, &terms);
            if (later && spoils(x, &d)) {
                waits_for[n_waiting] = i;
                waiting[n_waiting++] = terms;
            } else {
                mp_sum_to(&terms, &d, 1, add);
            }
        }
    }
    for (int k = 0; k < n_waiting; k++) {
        mp_array d = target_of(x, s, waits_for[k]);
        mp_sum_to(&waiting[k], &d, 1, x->adds & call->adds & MP_BIT(waits_for[k]));
    }
    return MP_OK;
}

/* Inputs as they broadcast: axis attributes of old operator sets, and PRelu's slope. */
static mp_status see_operands(const mp_operands *x, state *s, mp_error *err)
{
    mp_status st = MP_OK;
    MP_REQUIRE(s->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    MP_REQUIRE(s->operands = mp_pool_alloc(s->pool, (size_t)x->n_in, sizeof *s->operands), err, MP_NOMEM, "out of memory");
    for (int k = 0; k < x->n_in; k++) {
        mp_array *a = &s->operands[k];
        *a = x->in[k];
        a->data = NULL;
        /* a slope per channel stood for itself */
        bool slopes = (s->b->traits & SLOPES) && k == 1 && x->op->version < 7 && a->rank == 1 && x->in[0].rank > 2 &&
                      a->dims[0] == x->in[0].dims[1];
        for (int d = 1; slopes && d < x->in[0].rank - 1; d++) a->dims[d] = 1;
        if (slopes) a->rank = x->in[0].rank - 1;
        if (slopes || k != 1 || x->op->version >= 7 || a->rank >= x->in[0].rank || !mp_operator_int(x->op, "broadcast", 0))
            continue;
        int64_t axis = mp_operator_int(x->op, "axis", x->in[0].rank - a->rank);
        if (axis < 0) axis += x->in[0].rank;
        for (int d = a->rank; d < x->in[0].rank - axis; d++) {
            a->dims[d] = 1;
            a->strides[d] = 0;
        }
        a->rank = x->in[0].rank - (int)axis;
    }
done:
    return st;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    state *s;
    const binary *b = find(x->op);
    mp_dtype dtype = x->in[0].dtype;
    for (int k = 0; k < x->n_in; k++)
        if (!mp_elementwise_knows(x->in[k].dtype) || x->in[k].dtype == MP_DTYPE_DOUBLE) return MP_NO_KERNEL(x, err, "its type");
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->release = release;
    s->b = b;
    MP_TRY(see_operands(x, s, err));
    bool whole = mp_dtype_is_integer(dtype) || dtype == MP_DTYPE_BOOL;
    if (whole || !b->forward) s->whole = b->whole;
    if (whole && !b->whole) return MP_NO_KERNEL(x, err, "its type");
    if ((b->traits & SHIFTS) && !strcmp(mp_operator_text(x->op, "direction", "LEFT"), "RIGHT")) s->whole = shift_right;
    s->parameters[0] = b->traits & AVERAGES ? 1.0 / x->n_in : (double)mp_operator_int(x->op, "fmod", 0);
    call->run = run_forward;
    /* partial results do not lie in y, which may be where the third operand is */
    if (!x->is_backward && x->n_in > 2) call->workspace_bytes = mp_array_bytes(&x->out[0]);
    if (!x->is_backward) goto done;
    call->run = run_backward;
    int n_wanted = 0;
    s->slot_bytes = (mp_array_bytes(&x->d_out[0]) + 63) / 64 * 64;
    for (int i = x->from; i < x->to; i++) {
        if (!x->d_in[i].dtype) continue;
        bool whole = same_shape(&s->operands[i], &x->d_out[0]);
        n_wanted++;
        if (!whole) call->adds |= x->adds & MP_BIT(i);
        if (!whole && !(b->traits & ADDS)) call->workspace_bytes = s->slot_bytes;
    }
    if (n_wanted > 1) call->workspace_bytes = n_wanted * s->slot_bytes;
    if (n_wanted > 64) return MP_NO_KERNEL(x, err, "so many operands");
done:
    return st;
}

/* Where(condition, a, b) */
static void choose(const double *p, int64_t n, const float *const *in, float *out)
{
    (void)p;
    for (int64_t k = 0; k < n; k++) out[k] = in[0][k] != 0 ? in[1][k] : in[2][k];
}
static void whole_choose(const double *p, int64_t n, const int64_t *const *in, int64_t *out)
{
    (void)p;
    for (int64_t k = 0; k < n; k++) out[k] = in[0][k] ? in[1][k] : in[2][k];
}
/* in: dy, condition */
static void chosen(const double *p, int64_t n, const float *const *in, float *out)
{
    for (int64_t k = 0; k < n; k++) out[k] = (in[1][k] != 0) == (p[0] != 0) ? in[0][k] : 0;
}

static mp_status run_where(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_array *in[] = {&x->in[0], &x->in[1], &x->in[2]};
    (void)call, (void)run, (void)err;
    if (mp_dtype_is_float(x->out[0].dtype))
        mp_elementwise(choose, NULL, in, 3, &x->out[0]);
    else
        mp_elementwise_whole(whole_choose, NULL, in, 3, &x->out[0]);
    return MP_OK;
}

static mp_status run_where_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    (void)run, (void)err;
    const mp_array *in[] = {&x->d_out[0], &x->in[0]};
    bool both = x->d_in[1].dtype && x->d_in[2].dtype;
    for (int i = 2; i >= 1; i--) {
        double which = i == 1;
        mp_array terms = terms_of(x, x->d_out[0].dtype);
        if (i < x->from || i >= x->to || !x->d_in[i].dtype) continue;
        if (i == 2 && both) terms.data = (char *)x->workspace + call->workspace_bytes / 2;
        mp_elementwise(chosen, &which, in, 2, &terms);
        if (i == 2 && both) continue;
        mp_sum_to(&terms, &x->d_in[i], 1, x->adds & call->adds & MP_BIT(i));
    }
    if (both) {
        mp_array terms = terms_of(x, x->d_out[0].dtype);
        terms.data = (char *)x->workspace + call->workspace_bytes / 2;
        mp_sum_to(&terms, &x->d_in[2], 1, x->adds & call->adds & MP_BIT(2));
    }
    return MP_OK;
}

static mp_status prepare_where(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!mp_elementwise_knows(x->in[1].dtype)) return MP_NO_KERNEL(x, err, "its type");
    call->run = x->is_backward ? run_where_backward : run_where;
    if (x->is_backward) {
        call->adds = x->adds;
        call->workspace_bytes = 2 * ((mp_array_bytes(&x->d_out[0]) + 63) / 64 * 64);
    }
    return MP_OK;
}

/* FastGelu(x, bias): the tanh form of x + bias. */
FORWARD(fast_gelu, 0.5f * (a + b) * (1 + mp_tanh(0.7978845608028654f * ((a + b) + 0.044715f * (a + b) * (a + b) * (a + b)))))
static inline __attribute__((always_inline)) float slope(float v)
{
    float t = mp_tanh(0.7978845608028654f * (v + 0.044715f * v * v * v));
    return 0.5f * (1 + t) + 0.5f * v * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * v * v);
}
GRADIENT(fast_gelu_gradient, g *slope(a + b))

static mp_status run_fast_gelu(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    static float nothing;
    mp_array none = mp_array_plain(MP_DTYPE_FLOAT, 0, NULL);
    const mp_array *bias = x->n_in > 1 && x->in[1].dtype ? &x->in[1] : &none, *g = &x->d_out[0];
    (void)run, (void)err;
    none.data = &nothing;
    if (!x->is_backward) {
        const mp_array *in[] = {&x->in[0], bias};
        mp_elementwise(fast_gelu, NULL, in, 2, &x->out[0]);
        return MP_OK;
    }
    const mp_array *in[] = {g, &x->in[0], bias, g};
    mp_array terms = terms_of(x, g->dtype);
    mp_elementwise(fast_gelu_gradient, NULL, in, 4, &terms);
    for (int i = x->from; i < x->to; i++)
        if (x->d_in[i].dtype) mp_sum_to(&terms, &x->d_in[i], 1, x->adds & call->adds & MP_BIT(i));
    return MP_OK;
}

static mp_status prepare_fast_gelu(const mp_operands *x, mp_call *call, mp_error *err)
{
    (void)err;
    call->run = run_fast_gelu;
    call->adds = x->adds;
    if (x->is_backward) call->workspace_bytes = mp_array_bytes(&x->d_out[0]);
    return MP_OK;
}

const mp_kernel mp_cpu_binaries[] = {
    {"Add", "", prepare, prepare},
    {"Sub", "", prepare, prepare},
    {"Mul", "", prepare, prepare},
    {"Div", "", prepare, prepare},
    {"Pow", "", prepare, prepare},
    {"PRelu", "", prepare, prepare},
    {"Mod", "", prepare, NULL},
    {"Sum", "", prepare, prepare},
    {"Mean", "", prepare, prepare},
    {"Max", "", prepare, prepare},
    {"Min", "", prepare, prepare},
    {"Equal", "", prepare, NULL},
    {"Greater", "", prepare, NULL},
    {"Less", "", prepare, NULL},
    {"GreaterOrEqual", "", prepare, NULL},
    {"LessOrEqual", "", prepare, NULL},
    {"And", "", prepare, NULL},
    {"Or", "", prepare, NULL},
    {"Xor", "", prepare, NULL},
    {"BitwiseAnd", "", prepare, NULL},
    {"BitwiseOr", "", prepare, NULL},
    {"BitwiseXor", "", prepare, NULL},
    {"BitShift", "", prepare, NULL},
    {"Where", "", prepare_where, prepare_where},
    {"FastGelu", "com.microsoft", prepare_fast_gelu, prepare_fast_gelu},
    {0},
};
