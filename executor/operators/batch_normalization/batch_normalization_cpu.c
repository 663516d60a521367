/* batch_normalization_cpu.c - by the batch's statistics in training, by the running ones in evaluation.
 *
 * Running statistics move once per pass, at the node's first run: running = momentum running + (1 - momentum) batch, with the
 * population variance, as ONNX has it (PyTorch takes the unbiased one).
 */
#include <math.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/batch_normalization/batch_columns_cpu.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/normalizations/normalize_cpu.h"

typedef struct state {
    bool by_columns, from_batch; /* which loops; whose statistics */
    mp_batch_columns columns;
    mp_normalization rows;
    double epsilon, momentum;
    int64_t channels, statistics_at; /* mean and rstd where no extra keeps them, in the workspace */
} state;

static bool learns(const mp_operands *x)
{
    if (x->mode != MP_MODE_AS_WRITTEN) return x->mode == MP_MODE_TRAIN;
    return x->op->version >= 14 && mp_operator_int(x->op, "training_mode", 0);
}

static float *statistic(const mp_call *call, const mp_operands *x, int k)
{
    const state *s = call->state;
    if (x->extra[k].data) return x->extra[k].data;
    return (float *)((char *)x->workspace + s->statistics_at) + k * s->channels;
}

static float read_one(const mp_array *a, int64_t k)
{
    float room;
    return *mp_floats(a->data, a->dtype, k, 1, &room);
}

static void write_one(const mp_array *a, int64_t k, float value)
{
    if (a->dtype == MP_DTYPE_FLOAT)
        ((float *)a->data)[k] = value;
    else
        mp_floats_done(a->data, a->dtype, k, 1, &value);
}

/* Moves the running statistics in place, and writes them to the outputs that ask for them. */
static void move_statistics(const state *s, const mp_operands *x, const float *mean, const float *rstd)
{
    for (int which = 0; which < 2; which++) {
        const mp_array *old = &x->in[3 + which], *out = x->n_out > 1 + which ? &x->out[1 + which] : NULL;
        bool in_place = x->mode == MP_MODE_TRAIN && x->run.first_run && old->data;
        if (!old->data || (!in_place && !(out && out->data))) continue;
        for (int64_t k = 0; k < s->channels; k++) {
            double batch = which ? 1 / ((double)rstd[k] * (double)rstd[k]) - s->epsilon : (double)mean[k];
            if (which && batch < 0) batch = 0;
            float moved = (float)((double)read_one(old, k) * s->momentum + batch * (1 - s->momentum));
            if (out && out->data) write_one(out, k, moved);
            if (in_place) write_one(old, k, moved);
        }
    }
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    float *mean = statistic(call, x, 0), *rstd = statistic(call, x, 1);
    (void)err;
    if (!s->from_batch)
        for (int64_t k = 0; k < s->channels; k++) {
            mean[k] = read_one(&x->in[3], k);
            rstd[k] = (float)(1 / sqrt((double)read_one(&x->in[4], k) + s->epsilon));
        }
    if (s->by_columns) {
        if (s->from_batch) mp_batch_columns_measure(&s->columns, &x->in[0], s->epsilon, mean, rstd, x->workspace);
        mp_batch_columns_apply(&s->columns, &x->in[0], &x->in[1], &x->in[2], mean, rstd, &x->out[0], x->workspace);
    } else {
        mp_normalize_data d = {.dtype = x->in[0].dtype,
                               .parameter_dtype = x->in[1].dtype,
                               .x = x->in[0].data,
                               .scale = x->in[1].data,
                               .shift = x->in[2].data,
                               .out = x->out[0].data,
                               .mean = mean,
                               .rstd = rstd};
        if (s->from_batch)
            mp_normalize_forward(&s->rows, &d);
        else
            mp_normalize_apply(&s->rows, &d);
    }
    if (s->from_batch) move_statistics(s, x, mean, rstd);
    return MP_OK;
}

static void put_gradient(const mp_operands *x, const mp_call *call, int i, const float *values, int64_t n)
{
    const mp_array *d = &x->d_in[i];
    if (!d->dtype) return;
    for (int64_t k = 0; k < n; k++) write_one(d, k, values[k] + (x->adds & call->adds & MP_BIT(i) ? read_one(d, k) : 0));
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    bool from_output = x->alternative == 1;
    const mp_array *v = from_output ? &x->out[0] : &x->in[0], *dx = x->d_in[0].dtype ? &x->d_in[0] : NULL;
    float *mean = x->extra[0].data, *rstd = x->extra[1].data;
    (void)err;
    if (s->by_columns) {
        float *d_scale = (float *)((char *)x->workspace + s->statistics_at), *d_shift = d_scale + s->channels;
        mp_batch_columns_backward(&s->columns, v, from_output, &x->d_out[0], &x->in[1], &x->in[2], mean, rstd, dx, d_scale,
                                  d_shift, x->workspace);
        put_gradient(x, call, 1, d_scale, s->channels);
        put_gradient(x, call, 2, d_shift, s->channels);
        return MP_OK;
    }
    mp_normalize_data d = {.dtype = x->in[0].dtype,
                           .parameter_dtype = x->in[1].dtype,
                           .x = from_output ? NULL : v->data,
                           .y = from_output ? v->data : NULL,
                           .dy = x->d_out[0].data,
                           .scale = x->in[1].data,
                           .shift = from_output ? x->in[2].data : NULL,
                           .out = dx ? dx->data : NULL,
                           .mean = mean,
                           .rstd = rstd,
                           .d_scale = x->d_in[1].dtype ? x->d_in[1].data : NULL,
                           .d_shift = x->d_in[2].dtype ? x->d_in[2].data : NULL,
                           .add_scale = x->adds & MP_BIT(1),
                           .add_shift = x->adds & MP_BIT(2),
                           .partial = x->workspace};
    mp_normalize_backward(&s->rows, &d);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = &x->in[0];
    int64_t parameter_stride[MP_ARRAY_RANK] = {0};
    MP_CHECK(mp_normalization_types(x, err));
    if (x->op->version < 9 && !mp_operator_int(x->op, "spatial", 1)) return MP_NO_KERNEL(x, err, "spatial = 0");
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->channels = a->rank > 1 ? a->dims[1] : 1;
    s->epsilon = mp_operator_float(x->op, "epsilon", 1e-5f);
    s->momentum = mp_operator_float(x->op, "momentum", 0.9f);
    s->from_batch = learns(x);
    s->by_columns = mp_batch_columns_of(a, &s->columns);
    if (a->rank > 1) parameter_stride[1] = 1;
    s->rows = mp_normalization_of(a, ~2u & ((1u << a->rank) - 1), parameter_stride, s->channels, true, s->epsilon);
    call->workspace_bytes =
        s->by_columns ? mp_batch_columns_workspace_bytes(&s->columns) : mp_normalize_workspace_bytes(&s->rows);
    s->statistics_at = (call->workspace_bytes + 63) / 64 * 64;
    call->workspace_bytes = s->statistics_at + 2 * s->channels * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2));
    return MP_OK;
}

const mp_kernel mp_cpu_batch_normalizations[] = {{"BatchNormalization", "", prepare, prepare}, {0}};
