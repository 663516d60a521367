/* line_normalizations_cpu.c - LpNormalization and LRN, whose sums run along one dimension: one line of it after the other. */
#include <math.h>
#include <string.h>

#include "executor/operators/elementwise/elementwise_cpu.h"

/* Lines along one dimension: everything else is outside. */
typedef struct lines {
    int64_t n, length, stride;
    int rank;
    int64_t dims[MP_ARRAY_RANK], strides[MP_ARRAY_RANK];
} lines;

typedef struct state {
    lines lines;
    int p;                 /* LpNormalization: 1 or 2 */
    int64_t before, after; /* LRN: how many neighbours */
    float alpha, beta, bias;
} state;

typedef struct job {
    const state *s;
    const mp_operands *x;
} job;

static lines lines_of(const mp_array *x, int axis)
{
    lines l = {.n = 1, .length = x->dims[axis], .stride = x->strides[axis]};
    for (int d = 0; d < x->rank; d++) {
        if (d == axis) continue;
        l.dims[l.rank] = x->dims[d];
        l.strides[l.rank++] = x->strides[d];
        l.n *= x->dims[d];
    }
    return l;
}

static int64_t line_at(const lines *l, int64_t k)
{
    int64_t at = 0;
    for (int d = l->rank - 1; d >= 0; d--) {
        at += k % l->dims[d] * l->strides[d];
        k /= l->dims[d];
    }
    return at;
}

static float load(const mp_array *a, int64_t at)
{
    float room;
    return *mp_floats(a->data, a->dtype, at, 1, &room);
}
static void store(const mp_array *a, int64_t at, float value)
{
    if (a->dtype == MP_DTYPE_FLOAT)
        ((float *)a->data)[at] = value;
    else
        mp_floats_done(a->data, a->dtype, at, 1, &value);
}

static double norm_of(const state *s, const mp_array *x, int64_t at)
{
    double sum = 0;
    for (int64_t k = 0; k < s->lines.length; k++) {
        double v = (double)load(x, at + k * s->lines.stride);
        sum += s->p == 1 ? fabs(v) : v * v;
    }
    return s->p == 1 ? sum : sqrt(sum);
}

static void lp_forward(void *data, int64_t k)
{
    const job *j = data;
    const lines *l = &j->s->lines;
    int64_t at = line_at(l, k);
    double norm = norm_of(j->s, &j->x->in[0], at);
    for (int64_t e = 0; e < l->length; e++)
        store(&j->x->out[0], at + e * l->stride, norm > 0 ? (float)((double)load(&j->x->in[0], at + e * l->stride) / norm) : 0);
}

/* dx = (dy - y' sum(dy y)) / norm, where y' is y, or for p = 1 the sign of x. */
static void lp_backward(void *data, int64_t k)
{
    const job *j = data;
    const lines *l = &j->s->lines;
    int64_t at = line_at(l, k);
    double norm = norm_of(j->s, &j->x->in[0], at), sum = 0;
    for (int64_t e = 0; e < l->length; e++)
        sum += (double)load(&j->x->d_out[0], at + e * l->stride) * (double)load(&j->x->out[0], at + e * l->stride);
    for (int64_t e = 0; e < l->length; e++) {
        double v = (double)load(&j->x->in[0], at + e * l->stride), y = (double)load(&j->x->out[0], at + e * l->stride);
        double slope = j->s->p == 1 ? (v > 0) - (v < 0) : y, dy = (double)load(&j->x->d_out[0], at + e * l->stride);
        store(&j->x->d_in[0], at + e * l->stride, norm > 0 ? (float)((dy - slope * sum) / norm) : 0);
    }
}

static mp_status run_lp(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    job j = {s, x};
    (void)run, (void)err;
    mp_parallel(s->lines.n, s->lines.length, x->is_backward ? lp_backward : lp_forward, &j);
    return MP_OK;
}

static mp_status begin(const mp_operands *x, mp_call *call, int64_t axis, mp_error *err)
{
    state *s;
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    s->lines = lines_of(&x->in[0], (int)(axis < 0 ? axis + x->in[0].rank : axis));
    return MP_OK;
}

static mp_status prepare_lp(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(begin(x, call, mp_operator_int(x->op, "axis", -1), err));
    ((state *)call->state)->p = (int)mp_operator_int(x->op, "p", 2);
    call->run = run_lp;
    return MP_OK;
}

/* The extra "scale" is bias + alpha / size * (sum of squares over the neighbours), in the type and the layout of x: Krizhevsky,
 * Sutskever, Hinton 2012. */
static float *scale_at(const mp_operands *x, const mp_call *call)
{
    (void)call;
    return x->extra[0].data ? x->extra[0].data : x->workspace;
}

static void lrn_forward(void *data, int64_t k)
{
    const job *j = data;
    const state *s = j->s;
    const lines *l = &s->lines;
    float *scale = scale_at(j->x, NULL);
    int64_t at = line_at(l, k);
    for (int64_t c = 0; c < l->length; c++) {
        double sum = 0;
        for (int64_t o = c - s->before < 0 ? 0 : c - s->before; o <= c + s->after && o < l->length; o++) {
            double v = (double)load(&j->x->in[0], at + o * l->stride);
            sum += v * v;
        }
        scale[at + c * l->stride] = s->bias + s->alpha * (float)sum;
    }
    for (int64_t c = 0; c < l->length; c++)
        store(&j->x->out[0], at + c * l->stride,
              load(&j->x->in[0], at + c * l->stride) * powf(scale[at + c * l->stride], -s->beta));
}

/* dx_c = dy_c s_c^-beta - 2 alpha beta x_c sum over o that c is a neighbour of: dy_o x_o s_o^(-beta - 1) */
static void lrn_backward(void *data, int64_t k)
{
    const job *j = data;
    const state *s = j->s;
    const lines *l = &s->lines;
    const float *scale = scale_at(j->x, NULL);
    float *terms = (float *)j->x->workspace + k * l->length, *direct = (float *)j->x->workspace + (l->n + k) * l->length;
    int64_t at = line_at(l, k);
    for (int64_t o = 0; o < l->length; o++) {
        int64_t e = at + o * l->stride;
        direct[o] = load(&j->x->d_out[0], e) * powf(scale[e], -s->beta);
        terms[o] = direct[o] * load(&j->x->in[0], e) / scale[e];
    }
    for (int64_t c = 0; c < l->length; c++) {
        double sum = 0;
        for (int64_t o = c - s->after < 0 ? 0 : c - s->after; o <= c + s->before && o < l->length; o++) sum += (double)terms[o];
        int64_t e = at + c * l->stride;
        store(&j->x->d_in[0], e, (float)((double)direct[c] - 2.0 * (double)(s->alpha * s->beta * load(&j->x->in[0], e)) * sum));
    }
}

static mp_status run_lrn(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    job j = {s, x};
    (void)run, (void)err;
    mp_parallel(s->lines.n, s->lines.length * 16, x->is_backward ? lrn_backward : lrn_forward, &j);
    return MP_OK;
}

static mp_status prepare_lrn(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_CHECK(begin(x, call, 1, err));
    state *s = call->state;
    int64_t size = mp_operator_int(x->op, "size", 1);
    s->before = (size - 1) / 2;
    s->after = size - 1 - s->before;
    s->alpha = (float)(mp_operator_float(x->op, "alpha", 1e-4f) / (double)size);
    s->beta = (float)mp_operator_float(x->op, "beta", 0.75);
    s->bias = (float)mp_operator_float(x->op, "bias", 1);
    call->workspace_bytes = mp_array_elements(&x->in[0]) * (int64_t)sizeof(float) * (x->is_backward ? 2 : 1);
    call->run = run_lrn;
    return MP_OK;
}

const mp_kernel mp_cpu_line_normalizations[] = {
    {"LpNormalization", "", prepare_lp, prepare_lp}, {"LRN", "", prepare_lrn, prepare_lrn}, {0}};
