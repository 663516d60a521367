/* normalizations_cuda.cu - normalizations without running statistics as calls, and LpNormalization and LRN along one dimension.
 */
#include "executor/operators/normalizations/normalize_cuda.cuh"

#include "executor/cuda/grid/lines.cuh"

namespace
{

/* ---- layer, root-mean-square, group, instance and mean-variance normalization. */

struct state {
    mp_normal normal;
    int64_t statistics_at; /* in the workspace, where no extra keeps them */
};

/* Extras come in the order mean, rstd; what is not centered has rstd only. */
static mp_normal_data data_of(const state *s, const mp_operands *x)
{
    const bool centered = s->normal.form.centered;
    const mp_array *mean = &x->extra[0], *rstd = &x->extra[centered ? 1 : 0];
    float *room = (float *)mp_workspace_at(x, s->statistics_at);
    mp_normal_data d = {};
    d.x = mp_input(x, 0);
    d.scale = mp_input(x, 1);
    d.mean = !centered ? NULL : mean->data ? (float *)mean->data : room;
    d.rstd = rstd->data ? (float *)rstd->data : room + s->normal.form.n_rows;
    return d;
}

struct given {
    const float *from;
    mp_operand to;
    MP_BODY void operator()(int64_t k) const { to.store(k, from[k]); }
};

static void give(const mp_operands *x, int o, const float *values, int64_t n)
{
    const given f = {values, mp_output(x, o)};
    if (f.to.data && values) mp_each(n, f);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    const state *s = (const state *)call->state;
    const int64_t n = s->normal.form.n_rows;
    mp_normal_data d = data_of(s, x);
    d.shift = mp_input(x, 2);
    d.y = mp_output(x, 0);
    mp_normal_forward(&s->normal, &d, x->workspace);
    if (s->normal.form.centered) {
        give(x, 1, d.mean, n);
        give(x, 2, d.rstd, n);
    } else if (x->n_out > 1) {
        give(x, x->n_out - 1, d.rstd, n);
    }
    return mp_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    const state *s = (const state *)call->state;
    mp_normal_data d = data_of(s, x);
    if (!x->extra[0].data) mp_normal_measure(&s->normal, &d, x->workspace); /* nothing was kept */
    if (x->alternative == 1) {
        d.x.data = NULL;
        d.y = mp_output(x, 0);
        d.shift = mp_input(x, 2);
    }
    d.dy = mp_operand_of(&x->d_out[0]);
    d.dx = mp_input_gradient(x, 0);
    d.d_scale = mp_input_gradient(x, 1);
    d.d_shift = mp_input_gradient(x, 2);
    d.add_scale = x->adds & MP_BIT(1);
    d.add_shift = x->adds & MP_BIT(2);
    mp_normal_backward(&s->normal, &d, x->workspace);
    return mp_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_normalization form;
    mp_status st = mp_normalization_read(x, &form, err);
    if (st) return st;
    state *s = mp_new_state<state>(call);
    if (!s) return MP_NO_MEMORY(err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->normal = mp_normal_of(&form);
    s->statistics_at = mp_aligned(mp_normal_workspace_bytes(&s->normal));
    call->workspace_bytes = s->statistics_at + 2 * form.n_rows * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2));
    return MP_OK;
}

/* ---- LpNormalization. */

struct lp_state {
    mp_lines lines;
    bool side_by_side;
    int p; /* 1 or 2 */
};

struct lp_forward : mp_sums {
    enum { PHASES = 1 };
    mp_line_places lines;
    mp_operand x, y;
    int p;
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const float v = x.load(lines.find(row, column));
        return value{p == 1 ? fabsf(v) : v * v};
    }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        const float norm = p == 1 ? totals[0].x : sqrtf(totals[0].x);
        const int64_t at = lines.find(row, column);
        y.store(at, norm > 0 ? x.load(at) / norm : 0);
    }
    MP_BODY void end(int64_t, const value *) const {}
};

/* dx = (dy - y' sum(dy y)) / norm, where y' is y, or for p = 1 the sign of x. */
struct lp_backward {
    struct value {
        float norm, product;
    };
    enum { PHASES = 1 };
    mp_line_places lines;
    mp_operand x, y, dy, dx;
    int p;
    MP_BODY value none(int) const { return value{0, 0}; }
    MP_BODY value join(int, value a, value b) const { return value{a.norm + b.norm, a.product + b.product}; }
    MP_BODY value at(int, int64_t row, int64_t column, const value *) const
    {
        const int64_t at = lines.find(row, column);
        const float v = x.load(at);
        return value{p == 1 ? fabsf(v) : v * v, dy.load(at) * y.load(at)};
    }
    MP_BODY void put(int64_t row, int64_t column, const value *totals) const
    {
        const int64_t at = lines.find(row, column);
        const float norm = p == 1 ? totals[0].norm : sqrtf(totals[0].norm), v = x.load(at);
        const float slope = p == 1 ? (float)((v > 0) - (v < 0)) : y.load(at);
        dx.store(at, norm > 0 ? (dy.load(at) - slope * totals[0].product) / norm : 0);
    }
    MP_BODY void end(int64_t, const value *) const {}
};

static mp_status run_lp(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    const lp_state *s = (const lp_state *)call->state;
    if (x->is_backward) {
        lp_backward f;
        f.lines = mp_line_places_of(&s->lines);
        f.x = mp_input(x, 0);
        f.y = mp_output(x, 0);
        f.dy = mp_operand_of(&x->d_out[0]);
        f.dx = mp_input_gradient(x, 0);
        f.p = s->p;
        mp_rows_that_lie(s->side_by_side, s->lines.n, s->lines.length, f);
    } else {
        lp_forward f;
        f.lines = mp_line_places_of(&s->lines);
        f.x = mp_input(x, 0);
        f.y = mp_output(x, 0);
        f.p = s->p;
        mp_rows_that_lie(s->side_by_side, s->lines.n, s->lines.length, f);
    }
    return mp_launched(err);
}

static mp_status prepare_lp(const mp_operands *x, mp_call *call, mp_error *err)
{
    const int64_t axis = mp_operator_int(x->op, "axis", -1);
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    lp_state *s = mp_new_state<lp_state>(call);
    if (!s) return MP_NO_MEMORY(err);
    s->lines = mp_lines_of(&x->in[0], 1u << (axis < 0 ? axis + x->in[0].rank : axis));
    s->side_by_side = !s->lines.contiguous;
    s->p = (int)mp_operator_int(x->op, "p", 2);
    call->run = run_lp;
    return MP_OK;
}

/* ---- LRN: the extra "scale" is bias + alpha / size * (sum of squares over the neighbours), in the layout of x: Krizhevsky,
 * Sutskever, Hinton 2012. */

struct lrn {
    int64_t channels, stride, before, after;
    float alpha, beta, bias;
    mp_operand x, y, dy, dx;
    float *scale, *terms;
};

/* Operand 0 is x, operand 1 the channel's number. */
struct lrn_forward : lrn {
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        float sum = 0;
        for (int64_t o = at[1] < before ? 0 : at[1] - before; o <= at[1] + after && o < channels; o++) {
            const float v = x.load(at[0] + (o - at[1]) * stride);
            sum += v * v;
        }
        const float s = bias + alpha * sum;
        if (scale) scale[at[0]] = s;
        y.store(at[0], x.load(at[0]) * powf(s, -beta));
    }
};

struct lrn_terms : lrn {
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        terms[at[0]] = dy.load(at[0]) * powf(scale[at[0]], -beta) * x.load(at[0]) / scale[at[0]];
    }
};

/* dx_c = dy_c s_c^-beta - 2 alpha beta x_c sum over o that c is a neighbour of: dy_o x_o s_o^(-beta - 1) */
struct lrn_backward : lrn {
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        float sum = 0;
        for (int64_t o = at[1] < after ? 0 : at[1] - after; o <= at[1] + before && o < channels; o++)
            sum += terms[at[0] + (o - at[1]) * stride];
        const float direct = dy.load(at[0]) * powf(scale[at[0]], -beta);
        dx.store(at[0], direct - 2 * alpha * beta * x.load(at[0]) * sum);
    }
};

static mp_status run_lrn(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    lrn a = *(const lrn *)call->state;
    mp_array channel = x->in[0];
    for (int d = 0; d < channel.rank; d++) channel.strides[d] = d == 1;
    const mp_array *of = &channel;
    const mp_loops loops = mp_loops_of(&of, 1, &x->in[0]);
    a.x = mp_input(x, 0);
    a.scale = (float *)x->extra[0].data;
    if (x->is_backward) {
        a.dy = mp_operand_of(&x->d_out[0]);
        a.dx = mp_input_gradient(x, 0);
        a.terms = (float *)x->workspace;
        mp_each_placed<2>(&loops, lrn_terms{a});
        mp_each_placed<2>(&loops, lrn_backward{a});
    } else {
        a.y = mp_output(x, 0);
        mp_each_placed<2>(&loops, lrn_forward{a});
    }
    return mp_launched(err);
}

static mp_status prepare_lrn(const mp_operands *x, mp_call *call, mp_error *err)
{
    const int64_t size = mp_operator_int(x->op, "size", 1);
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    lrn *s = mp_new_state<lrn>(call);
    if (!s) return MP_NO_MEMORY(err);
    s->channels = x->in[0].dims[1];
    s->stride = x->in[0].strides[1];
    s->before = (size - 1) / 2;
    s->after = size - 1 - s->before;
    s->alpha = (float)(mp_operator_float(x->op, "alpha", 1e-4f) / (double)size);
    s->beta = (float)mp_operator_float(x->op, "beta", 0.75);
    s->bias = (float)mp_operator_float(x->op, "bias", 1);
    if (x->is_backward) call->workspace_bytes = mp_array_elements(&x->in[0]) * (int64_t)sizeof(float);
    call->run = run_lrn;
    return MP_OK;
}

} // namespace

extern "C" const mp_kernel mp_cuda_normalizations[] = {
    {"LayerNormalization", "", prepare, prepare},
    {"LayerNormalization", "memplan", prepare, prepare},
    {"RMSNormalization", "", prepare, prepare},
    {"RMSNormalization", "memplan", prepare, prepare},
    {"SimplifiedLayerNormalization", "", prepare, prepare},
    {"SimplifiedLayerNormalization", "com.microsoft", prepare, prepare},
    {"GroupNormalization", "", prepare, prepare},
    {"InstanceNormalization", "", prepare, prepare},
    {"MeanVarianceNormalization", "", prepare, prepare},
    {"LpNormalization", "", prepare_lp, prepare_lp},
    {"LRN", "", prepare_lrn, prepare_lrn},
    {},
};
