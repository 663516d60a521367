/* randoms_cuda.c - the table of dropout and random numbers. */
#include "executor/operators/randoms/randoms_cuda.h"

#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"

static mp_status run_dropout(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_dropout s = *(const mp_dropout *)call->state;
    const mp_array *from = x->is_backward ? &x->d_out[0] : &x->in[0], *to = x->is_backward ? &x->d_in[0] : &x->out[0];
    uint8_t *given = !x->is_backward && x->n_out > 1 ? x->out[1].data : NULL, *mask = NULL;
    if (!s.drops) s.ratio = 0; /* keeps all, and each as it is */
    if (s.drops && x->alternative == 1) mask = x->extra[0].data;
    mp_cuda_drop(&s, run, (uint32_t)x->op_index, from, to, x->is_backward ? mask : NULL, x->is_backward ? NULL : mask, given);
    return mp_cuda_launched(err);
}

static mp_status prepare_dropout(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_dropout;
    return mp_dropout_prepare(x, call, err);
}

static mp_status run_source(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_cuda_draw(call->state, run, (uint32_t)x->op_index, x->n_in ? &x->in[0] : NULL, &x->out[0]);
    return mp_cuda_launched(err);
}

static mp_status prepare_source(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_source;
    return mp_random_source_prepare(x, call, err);
}

const mp_kernel mp_cuda_randoms[] = {
    {"Dropout", "", prepare_dropout, prepare_dropout},
    {"RandomUniform", "", prepare_source, NULL},
    {"RandomUniformLike", "", prepare_source, NULL},
    {"RandomNormal", "", prepare_source, NULL},
    {"RandomNormalLike", "", prepare_source, NULL},
    {"Bernoulli", "", prepare_source, NULL},
    {0},
};
