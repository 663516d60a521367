/* normalizations_cpu.c - layer, root-mean-square, group, instance and mean-variance normalization: where statistics are kept,
 * and which of them are outputs. */
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/normalizations/normalize_cpu.h"

typedef struct state {
    mp_normalization rows;
    bool centered;
    int64_t statistics_at; /* where no extra keeps them */
} state;

/* Extras come in the order mean, rstd; what is not centered has rstd only. Without extras, backward finds them in the
 * workspace. */
static float *mean_of(const state *s, const mp_operands *x)
{
    if (!s->centered) return NULL;
    return x->extra[0].data ? x->extra[0].data : (float *)((char *)x->workspace + s->statistics_at);
}
static float *rstd_of(const state *s, const mp_operands *x)
{
    const mp_array *kept = &x->extra[s->centered ? 1 : 0];
    return kept->data ? kept->data : (float *)((char *)x->workspace + s->statistics_at) + s->rows.n_rows;
}

static bool has(const mp_operands *x, int i)
{
    return i < x->n_in && x->in[i].dtype != MP_DTYPE_UNDEFINED;
}

static mp_normalize_data data_of(const state *s, const mp_operands *x)
{
    return (mp_normalize_data){.dtype = x->in[0].dtype,
                               .parameter_dtype = has(x, 1) ? x->in[1].dtype : MP_DTYPE_FLOAT,
                               .x = x->in[0].data,
                               .scale = has(x, 1) ? x->in[1].data : NULL,
                               .mean = mean_of(s, x),
                               .rstd = rstd_of(s, x)};
}

static void give(const mp_operands *x, int o, const float *values, int64_t n)
{
    if (o >= x->n_out || !x->out[o].data || !values) return;
    for (int64_t k = 0; k < n; k++) {
        if (x->out[o].dtype == MP_DTYPE_FLOAT)
            ((float *)x->out[o].data)[k] = values[k];
        else
            mp_floats_done(x->out[o].data, x->out[o].dtype, k, 1, &values[k]);
    }
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_normalize_data d = data_of(s, x);
    (void)err;
    d.shift = has(x, 2) ? x->in[2].data : NULL;
    d.out = x->out[0].data;
    mp_normalize_forward(&s->rows, &d);
    give(x, s->centered ? 1 : x->n_out - 1, s->centered ? d.mean : x->n_out > 1 ? d.rstd : NULL, s->rows.n_rows);
    if (s->centered) give(x, 2, d.rstd, s->rows.n_rows);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_normalize_data d = data_of(s, x);
    (void)err;
    bool from_output = x->alternative == 1;
    if (!x->extra[0].data) mp_normalize_measure(&s->rows, &d); /* nothing was kept */
    if (from_output) {
        d.x = NULL;
        d.y = x->out[0].data;
        d.shift = has(x, 2) ? x->in[2].data : NULL;
    }
    d.dy = x->d_out[0].data;
    d.out = x->d_in[0].dtype ? x->d_in[0].data : NULL;
    d.d_scale = x->n_in > 1 && x->d_in[1].dtype ? x->d_in[1].data : NULL;
    d.d_shift = x->n_in > 2 && x->d_in[2].dtype ? x->d_in[2].data : NULL;
    d.add_scale = x->adds & MP_BIT(1);
    d.add_shift = x->adds & MP_BIT(2);
    d.partial = x->workspace;
    mp_normalize_backward(&s->rows, &d);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    MP_CHECK(mp_normalization_read(x, &s->rows, err));
    s->centered = s->rows.centered;
    if (x->is_backward) call->workspace_bytes = mp_normalize_workspace_bytes(&s->rows);
    s->statistics_at = (call->workspace_bytes + 63) / 64 * 64;
    call->workspace_bytes = s->statistics_at + 2 * s->rows.n_rows * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2));
    return MP_OK;
}

#define ROW(kind, domain, cut, centered, epsilon) {kind, domain, prepare, prepare},
const mp_kernel mp_cpu_normalizations[] = {MP_NORMALIZATIONS(ROW){0}};
