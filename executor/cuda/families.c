/* families.c - own kernels as tables: elementwise operators on the GPU's engine, dropout, random numbers. */
#include "executor/cuda/kernels.h"

static const mp_engine engine = {mp_cuda_floats, mp_cuda_whole, mp_cuda_sum_to, mp_cuda_sum_workspace_bytes, mp_cuda_launched};

#define MP_ENGINE &engine
#define MP_UNARIES mp_cuda_unaries
#define MP_BINARIES mp_cuda_binaries
#include "executor/operators/elementwise/elementwise_tables.h"

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

#define TABLE(name) mp_cuda_##name,
static const mp_kernel *const families[] = {MP_CUDA_FAMILIES(TABLE)};
#undef TABLE

const mp_kernel *mp_cuda_own_kernel(const mp_operator *op)
{
    return mp_kernel_find(families, sizeof families / sizeof *families, op);
}
