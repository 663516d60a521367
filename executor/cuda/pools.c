/* pools.c - pools on own kernels. Maxima keep what the CPU's keep: their tap, a byte where the window has at most 256, which
 * cuDNN does not write. An average over everything is a sum. */
#include <string.h>

#include "estimator/memory.h"
#include "executor/cuda/kernels.h"
#include "executor/cuda/libraries.h"
#include "executor/cuda/windows.h"

typedef struct state {
    mp_windows windows;
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
        mp_windows_forward(&s->windows, &x->in[0], &x->out[0], x->extra[0].data, x->n_out > 1 ? &x->out[1] : &none);
    return mp_cuda_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    bool add = x->adds & call->adds & MP_BIT(0);
    (void)run;
    mp_windows_backward(&s->windows, &x->d_out[0], &x->d_in[0], &x->in[0], &x->out[0], x->extra[0].data, add);
    return mp_cuda_launched(err);
}

static mp_status prepare_as(const mp_operands *x, mp_call *call, mp_window_rule rule, bool global, mp_error *err)
{
    mp_status st = MP_OK;
    state *s;
    const mp_array *a = &x->in[0], *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    const mp_attribute *p = mp_operator_attribute(x->op, "p");
    int64_t taps = 1;
    if (a->dtype != MP_DTYPE_FLOAT && a->dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (a->rank > 2 + MP_WINDOW_SPATIAL) return MP_NO_KERNEL(x, err, "more than three spatial dimensions");
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = x->is_backward ? run_backward : run_forward;
    if (x->is_backward) call->adds = x->adds & MP_BIT(0);
    MP_TRY(mp_sliding_pool(x->model, x->op, a, y, global, &s->windows.window, err));
    for (int d = 0; d < s->windows.window.n; d++) taps *= s->windows.window.kernel[d];
    s->windows.rule = rule;
    s->windows.counts_pads = rule == MP_WINDOW_AVERAGE && mp_operator_int(x->op, "count_include_pad", 0);
    s->windows.backwards = mp_operator_int(x->op, "storage_order", 0);
    s->windows.wide = global || taps > 256;
    s->windows.p =
        p && p->kind == MP_ATTRIBUTE_FLOAT ? mp_operator_float(x->op, "p", 2) : (double)mp_operator_int(x->op, "p", 2);
    s->is_sum = global && rule == MP_WINDOW_AVERAGE && !x->is_backward && taps > 0;
    s->share = taps > 0 ? 1 / (float)taps : 0;
    if (s->is_sum) call->workspace_bytes = mp_cuda_sum_workspace_bytes(a, y);
done:
    return st;
}

static mp_status max_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_as(x, call, MP_WINDOW_MAXIMUM, false, err);
}
static mp_status average_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_as(x, call, MP_WINDOW_AVERAGE, false, err);
}
static mp_status lp_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_as(x, call, MP_WINDOW_NORM, false, err);
}
static mp_status global_max_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_as(x, call, MP_WINDOW_MAXIMUM, true, err);
}
static mp_status global_average_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_as(x, call, MP_WINDOW_AVERAGE, true, err);
}
static mp_status global_lp_pool(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_as(x, call, MP_WINDOW_NORM, true, err);
}

const mp_kernel mp_cuda_pools[] = {
    {"MaxPool", "", max_pool, max_pool},
    {"AveragePool", "", average_pool, average_pool},
    {"LpPool", "", lp_pool, lp_pool},
    {"GlobalMaxPool", "", global_max_pool, global_max_pool},
    {"GlobalAveragePool", "", global_average_pool, global_average_pool},
    {"GlobalLpPool", "", global_lp_pool, global_lp_pool},
    {0},
};
