/* pools_cuda.c - pools on own kernels. Maxima keep what the CPU's keep: their tap, a byte where the window has at most 256,
 * which cuDNN does not write. An average over everything is a sum. */
#include "estimator/base/memory.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/operators/elementwise/sums_cuda.h"
#include "executor/operators/pooling/windows_cuda.h"

typedef struct state {
    mp_pooling pool;
    bool is_sum; /* forward: the average of everything */
    float share; /* of one element in it */
} state;

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    mp_array none = {0};
    (void)run;
    if (s->is_sum)
        mp_cuda_sum_to(&x->in[0], &x->out[0], s->share, false, x->workspace);
    else
        mp_windows_forward(&s->pool, &x->in[0], &x->out[0], x->extra[0].data, x->n_out > 1 ? &x->out[1] : &none);
    return mp_cuda_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    bool add = x->adds & call->adds & MP_BIT(0);
    (void)run;
    mp_windows_backward(&s->pool, &x->d_out[0], &x->d_in[0], &x->in[0], &x->out[0], x->extra[0].data, add);
    return mp_cuda_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    state *s;
    const mp_array *a = &x->in[0];
    if (a->rank > 2 + MP_WINDOW_SPATIAL) return MP_NO_KERNEL(x, err, "more than three spatial dimensions");
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    if (x->is_backward) call->adds = x->adds & MP_BIT(0);
    MP_CHECK(mp_pooling_read(x, &s->pool, err));
    s->is_sum = s->pool.is_global && s->pool.rule == MP_POOLING_AVERAGE && !x->is_backward && s->pool.n_taps > 0;
    s->share = s->pool.n_taps > 0 ? 1 / (float)s->pool.n_taps : 0;
    if (s->is_sum) call->workspace_bytes = mp_cuda_sum_workspace_bytes(a, &x->out[0]);
    return MP_OK;
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
