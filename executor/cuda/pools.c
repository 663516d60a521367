/* pools.c - the table of pools on the GPU: prepared as on the CPU. An average over everything is a sum. */
#include "executor/cuda/pools.h"

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels.h"

static bool is_mean(const mp_pooling *s)
{
    return s->is_global && s->rule == MP_POOL_AVERAGE;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_pooling *s = call->state;
    (void)run;
    if (is_mean(s))
        mp_cuda_sum_to(&x->in[0], &x->out[0], 1 / (float)(s->n_taps ? s->n_taps : 1), false, x->workspace);
    else
        mp_cuda_pool(s, &x->in[0], &x->out[0], s->rule == MP_POOL_MAXIMUM ? x->extra[0].data : NULL,
                     x->n_out > 1 ? &x->out[1] : NULL);
    return mp_cuda_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_pooling *s = call->state;
    (void)run;
    mp_cuda_pool_back(s, &x->in[0], &x->out[0], x->extra[0].data, &x->d_out[0], &x->d_in[0], x->adds & call->adds & MP_BIT(0));
    return mp_cuda_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_kernel *cpu = mp_cpu_kernel(x->op);
    MP_TRY((x->is_backward ? cpu->backward : cpu->forward)(x, call, err));
    const mp_pooling *s = call->state;
    if (s->n > MP_CUDA_SPACE) {
        st = MP_NO_KERNEL(x, err, "a window of more than three dimensions");
        goto done;
    }
    call->run = x->is_backward ? run_backward : run_forward;
    if (!x->is_backward && is_mean(s)) call->workspace_bytes = mp_cuda_sum_workspace_bytes(&x->in[0], &x->out[0]);
done:
    return st;
}

const mp_kernel mp_cuda_pools[] = {
    {"MaxPool", "", prepare, prepare},
    {"AveragePool", "", prepare, prepare},
    {"LpPool", "", prepare, prepare},
    {"GlobalMaxPool", "", prepare, prepare},
    {"GlobalAveragePool", "", prepare, prepare},
    {"GlobalLpPool", "", prepare, prepare},
    {0},
};
