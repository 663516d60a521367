/* normalizations_cuda.cu - layer, root-mean-square, group, instance and mean-variance normalization as calls. */
#include "executor/operators/normalizations/normalize_cuda.cuh"

namespace
{

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

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
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

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
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
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->normal = mp_normal_of(&form);
    s->statistics_at = mp_aligned(mp_normal_workspace_bytes(&s->normal));
    call->workspace_bytes = s->statistics_at + 2 * form.n_rows * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2));
    return MP_OK;
}

} // namespace

#define ROW(kind, domain, cut, centered, epsilon) {kind, domain, prepare, prepare},
extern "C" const mp_kernel mp_cuda_normalizations[] = {MP_NORMALIZATIONS(ROW){}};
