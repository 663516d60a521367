/* batch_normalization_cuda.c - batch normalization on the GPU with memplan's own kernels: with the batch's statistics in
 * training, and the running statistics in evaluation. ReLU, or an addition and ReLU, can be fused into the same kernel.
 *
 * Running statistics are updated once per pass, at the node's first run, as on the CPU. */
#include "estimator/base/memory.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/batch_normalization/channel_norm_cuda.h"
#include "executor/operators/normalizations/normalization.h"

typedef struct state {
    mp_channel_norm norm; /* sizes, epsilon, momentum */
    bool from_batch;      /* true: statistics of the batch; false: running statistics */
    /* offset in the workspace of mean and rstd, if forward does not save them for backward (as extra outputs) */
    int64_t statistics_at;
} state;

static bool learns(const mp_operands *x)
{
    if (x->mode != MP_MODE_AS_WRITTEN) return x->mode == MP_MODE_TRAIN;
    return (x->op->version >= 14 || *x->op->domain) && mp_operator_int(x->op, "training_mode", 0);
}

static float *statistic(const state *s, const mp_operands *x, int k)
{
    if (x->extra[k].data) return x->extra[k].data;
    return (float *)((char *)x->workspace + s->statistics_at) + k * s->norm.channels;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_channel_norm c = s->norm;
    c.value = x->in[0];
    c.scale = x->in[1];
    c.shift = x->in[2];
    c.y = x->out[0];
    if (c.end == MP_CHANNEL_ADDED_RELU) {
        c.z = x->in[5];
        c.positive = x->extra[2].data;
    }
    c.mean = statistic(s, x, 0);
    c.rstd = statistic(s, x, 1);
    c.workspace = x->workspace;
    for (int which = 0; which < 2; which++) {
        c.running[which] = x->in[3 + which];
        if (x->mode == MP_MODE_TRAIN && x->run.first_run) c.moved[which][0] = x->in[3 + which];
        if (x->n_out > 1 + which) c.moved[which][1] = x->out[1 + which];
    }
    if (s->from_batch)
        mp_channel_norm_measure(&c);
    else
        mp_channel_norm_borrow(&c);
    mp_channel_norm_apply(&c);
    return mp_cuda_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_channel_norm c = s->norm;
    c.from_output = x->alternative == 1;
    c.value = c.from_output ? x->out[0] : x->in[0];
    c.dy = x->d_out[0];
    if (c.end == MP_CHANNEL_ADDED_RELU) {
        c.positive = x->extra[2].data;
        if (x->d_in[5].dtype) c.dz = x->d_in[5];
    }
    if (x->d_in[0].dtype) c.dx = x->d_in[0];
    c.scale = x->in[1];
    c.shift = x->in[2];
    c.d_scale = x->d_in[1];
    c.d_shift = x->d_in[2];
    c.mean = x->extra[0].data;
    c.rstd = x->extra[1].data;
    c.add_scale = x->adds & call->adds & MP_BIT(1);
    c.add_shift = x->adds & call->adds & MP_BIT(2);
    c.add_dz = x->adds & call->adds & MP_BIT(5);
    c.workspace = x->workspace;
    mp_channel_norm_backward(&c);
    return mp_cuda_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_channel_end end = !*x->op->domain ? MP_CHANNEL_PLAIN : x->n_in > 5 ? MP_CHANNEL_ADDED_RELU : MP_CHANNEL_RELU;
    const mp_array *a = &x->in[0], *other = x->is_backward ? &x->d_out[0] : &x->out[0];
    MP_CHECK(mp_normalization_types(x, err));
    if (x->op->version < 9 && !*x->op->domain && !mp_operator_int(x->op, "spatial", 1))
        return MP_NO_KERNEL(x, err, "spatial = 0");
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->norm.end = end;
    const mp_array *added = end == MP_CHANNEL_ADDED_RELU ? &x->in[5] : a;
    if (!mp_channel_norm_read(a, &s->norm) || !mp_array_same_layout(a, other) || !mp_array_same_layout(a, added)) {
        return MP_NO_KERNEL(x, err, "its layout");
    }
    s->norm.epsilon = mp_operator_float(x->op, "epsilon", 1e-5f);
    s->norm.momentum = mp_operator_float(x->op, "momentum", 0.9f);
    s->from_batch = learns(x);
    s->statistics_at = (mp_channel_norm_workspace_bytes(&s->norm) + 63) / 64 * 64;
    call->workspace_bytes = s->statistics_at + 2 * s->norm.channels * (int64_t)sizeof(float);
    if (x->is_backward) call->adds = x->adds & (MP_BIT(1) | MP_BIT(2) | MP_BIT(5));
    return MP_OK;
}

const mp_kernel mp_cuda_batch_normalizations[] = {
    {"BatchNormalization", "", prepare, prepare},
    {"BatchNormalizationRelu", "memplan", prepare, prepare},
    {"BatchNormalizationAddRelu", "memplan", prepare, prepare},
    {0},
};
