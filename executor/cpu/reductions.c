/* reductions.c - Reduce operators: forward through the reduction engine, backward element by element from what the registry
 * keeps, with the gradient and the result of each group spread over its elements. */
#include <math.h>
#include <string.h>

#include "executor/cpu/elementwise.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/reduction.h"

static double end_mean(double result, double shift, int64_t n)
{
    (void)shift;
    return result / (double)n;
}
static double end_root(double result, double shift, int64_t n)
{
    (void)shift, (void)n;
    return sqrt(result);
}
static double end_log(double result, double shift, int64_t n)
{
    (void)shift, (void)n;
    return log(result);
}
/* The shift is the largest element; nothing is added to an infinite one, nor to a NaN. */
static double end_log_shifted(double result, double shift, int64_t n)
{
    (void)n;
    return isfinite(shift) ? shift + log(result) : shift;
}

/* The gradient of an element x from dy and y (or what else is spread over the group), in the order in[0] = dy, in[1], in[2]. */
#define GRADIENT(name, expression)                                                             \
    MP_VECTOR static void name(const double *p, int64_t n, const float *const *in, float *out) \
    {                                                                                          \
        const float *dys = in[0], *xs = in[1], *ys = in[2];                                    \
        const float count = (float)p[0];                                                       \
        (void)count, (void)xs, (void)ys;                                                       \
        MP_INDEPENDENT for (int64_t k = 0; k < n; k++)                                         \
        {                                                                                      \
            const float dy = dys[k];                                                           \
            out[k] = (expression);                                                             \
        }                                                                                      \
    }
GRADIENT(d_sum, dy)
GRADIENT(d_mean, dy / count)
GRADIENT(d_absolutes, xs[k] > 0 ? dy : xs[k] < 0 ? -dy : 0 * dy)
GRADIENT(d_squares, 2 * dy * xs[k])
GRADIENT(d_root, ys[k] == 0 ? 0 : dy * xs[k] / ys[k])
GRADIENT(d_log, dy *expf(-xs[k])) /* in[1] is y: the logarithm of the sum by which dy is divided */
GRADIENT(d_log_exps, xs[k] == ys[k] ? dy : dy * expf(xs[k] - ys[k]))

/* Extremes and products have passes of their own. */
MP_VECTOR static void d_extreme(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *shares = in[0], *xs = in[1], *ys = in[2];
    (void)p;
    MP_INDEPENDENT for (int64_t k = 0; k < n; k++) out[k] = xs[k] == ys[k] ? shares[k] : 0;
}
MP_VECTOR static void d_product(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *dys = in[0], *xs = in[1], *products = in[2], *zeros = in[3];
    (void)p;
    MP_INDEPENDENT for (int64_t k = 0; k < n; k++)
    {
        float all = dys[k] * products[k], alone = zeros[k] == 1 && xs[k] == 0 ? all : 0;
        out[k] = zeros[k] == 0 ? all / xs[k] : alone;
    }
}
MP_VECTOR static void divide(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *as = in[0], *bs = in[1];
    (void)p;
    MP_INDEPENDENT for (int64_t k = 0; k < n; k++) out[k] = as[k] / bs[k];
}

typedef enum reads { READS_NOTHING, READS_INPUT, READS_OUTPUT, READS_BOTH, READS_TIES, READS_ZEROS } reads;

typedef struct row {
    const char *kind;
    mp_reduction_step step;
    mp_reduction_end end;
    bool shifted;  /* by the largest element */
    bool is_plain; /* of one element it gives that element */
    mp_row gradient;
    reads reads; /* what the gradient's row gets behind dy */
} row;

static const row rows[] = {
    {"ReduceSum", MP_STEP_SUM, NULL, false, true, d_sum, READS_NOTHING},
    {"ReduceMean", MP_STEP_SUM, end_mean, false, true, d_mean, READS_NOTHING},
    {"ReduceMax", MP_STEP_MAX, NULL, false, true, d_extreme, READS_TIES},
    {"ReduceMin", MP_STEP_MIN, NULL, false, true, d_extreme, READS_TIES},
    {"ReduceProd", MP_STEP_PRODUCT, NULL, false, true, d_product, READS_ZEROS},
    {"ReduceL1", MP_STEP_ABSOLUTES, NULL, false, false, d_absolutes, READS_INPUT},
    {"ReduceL2", MP_STEP_SQUARES, end_root, false, false, d_root, READS_BOTH},
    {"ReduceLogSum", MP_STEP_SUM, end_log, false, false, d_log, READS_OUTPUT},
    {"ReduceLogSumExp", MP_STEP_EXPS, end_log_shifted, true, true, d_log_exps, READS_BOTH},
    {"ReduceSumSquare", MP_STEP_SQUARES, NULL, false, false, d_squares, READS_INPUT},
};

typedef struct state {
    const row *row;
    bool reduced[MP_ARRAY_RANK];
    mp_reduction reduction;
    mp_array spread[2]; /* in the workspace: what a gradient needs per output */
    double parameters[1];
} state;

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    (void)run, (void)err;
    if (s->row->shifted) mp_reduction_run(&s->reduction, MP_STEP_MAX, NULL, &x->in[0], &y, NULL, x->workspace);
    mp_reduction_run(&s->reduction, s->row->step, s->row->end, &x->in[0], &y, s->row->shifted ? &y : NULL, x->workspace);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    int rank = x->in[0].rank;
    mp_array dy = mp_reduction_kept_dims(&x->d_out[0], rank, s->reduced), spread[2] = {s->spread[0], s->spread[1]};
    mp_array y = mp_reduction_kept_dims(&x->out[0], rank, s->reduced);
    const mp_array *in[4] = {&dy, &dy, &dy, &dy};
    int n_in = 3;
    void *partial = (char *)x->workspace + 2 * mp_array_bytes(&spread[0]);
    (void)run, (void)err;
    spread[0].data = x->workspace;
    spread[1].data = (char *)x->workspace + mp_array_bytes(&spread[0]);
    if (s->row->reads == READS_OUTPUT) in[1] = &y;
    if (s->row->reads >= READS_INPUT && s->row->reads != READS_OUTPUT) in[1] = &x->in[0];
    if (s->row->reads == READS_BOTH || s->row->reads == READS_TIES) in[2] = &y;
    if (s->row->reads == READS_TIES) {
        mp_reduction_run(&s->reduction, MP_STEP_EQUALS, NULL, &x->in[0], &spread[0], &y, partial);
        mp_elementwise(divide, s->parameters, (const mp_array *const[]){&dy, &spread[0]}, 2, &spread[0]);
        in[0] = &spread[0];
    } else if (s->row->reads == READS_ZEROS) {
        mp_reduction_run(&s->reduction, MP_STEP_NONZEROS, NULL, &x->in[0], &spread[0], NULL, partial);
        mp_reduction_run(&s->reduction, MP_STEP_ZEROS, NULL, &x->in[0], &spread[1], NULL, partial);
        in[2] = &spread[0];
        in[3] = &spread[1];
        n_in = 4;
    }
    mp_elementwise(s->row->gradient, s->parameters, in, n_in, &x->d_in[0]);
    return MP_OK;
}

static bool is_float(mp_dtype dtype)
{
    return dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    state *s;
    if (!is_float(x->in[0].dtype)) return mp_prepare_integer_reduction(x, call, err);
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].kind, x->op->op->name)) s->row = &rows[k];
    MP_TRY(mp_reduced_dims(x, s->reduced, err));
    bool none = x->in[0].rank > 0, shares = s->row->reads == READS_TIES || s->row->reads == READS_ZEROS;
    for (int d = 0; d < x->in[0].rank; d++) none = none && !s->reduced[d];
    if (none && !s->row->is_plain) {
        st = MP_NO_KERNEL(x, err, "reducing no dimension");
        goto done;
    }
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced), to = y;
    if (x->is_backward && shares) {
        to = mp_array_plain(MP_DTYPE_FLOAT, y.rank, y.dims);
        s->spread[0] = s->spread[1] = to;
        call->workspace_bytes = 2 * mp_array_bytes(&to);
    }
    mp_reduction_describe(&s->reduction, &x->in[0], &to, x->is_backward && !shares ? NULL : &y);
    if (!x->is_backward || shares) call->workspace_bytes += s->reduction.workspace_bytes;
    s->parameters[0] = (double)s->reduction.n_terms;
done:
    return st;
}

const mp_kernel mp_cpu_reductions[] = {
    {"ReduceSum", "", prepare, prepare},
    {"ReduceMean", "", prepare, prepare},
    {"ReduceMax", "", prepare, prepare},
    {"ReduceMin", "", prepare, prepare},
    {"ReduceProd", "", prepare, prepare},
    {"ReduceL1", "", prepare, prepare},
    {"ReduceL2", "", prepare, prepare},
    {"ReduceLogSum", "", prepare, prepare},
    {"ReduceLogSumExp", "", prepare, prepare},
    {"ReduceSumSquare", "", prepare, prepare},
    {"ArgMax", "", mp_prepare_arg_reduction, NULL},
    {"ArgMin", "", mp_prepare_arg_reduction, NULL},
    {"CumSum", "", mp_prepare_cumulative_sum, mp_prepare_cumulative_sum},
    {"TopK", "", mp_prepare_top_k, mp_prepare_top_k},
    {"Det", "", mp_prepare_determinant, NULL},
    {0},
};
