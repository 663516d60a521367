/* blas_recurrents.c - LSTM, GRU and RNN on the GPU: products by cublasLt, cells by memplan's own kernels. */
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/cuda/vendor/blas_matmul.h"
#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/recurrent/cells_cuda.h"
#include "executor/operators/recurrent/recurrence.h"

typedef struct state {
    mp_recurrence recurrence;
    mp_blas_matmul products[MP_N_RECURRENT_PRODUCTS];
} state;

static mp_status prepare_product(const mp_operands *x, void *data, mp_recurrent_product k, const mp_stacks *stacks, bool add,
                                 int64_t *bytes, mp_error *err)
{
    mp_blas_matmul *m = &((state *)data)->products[k];
    (void)x;
    MP_CHECK(mp_blas_matmul_prepare(&stacks->a, &stacks->b, &stacks->c, 1, add, MP_BLAS_NO_BIAS, m, err));
    *bytes = m->workspace_bytes;
    return MP_OK;
}

static mp_status multiply(const mp_operands *x, void *data, mp_recurrent_product k, const float *a, const float *b, float *c,
                          void *workspace, mp_error *err)
{
    (void)x;
    return mp_blas_matmul_run(&((state *)data)->products[k], a, b, c, NULL, workspace, err);
}

static const mp_recurrent_engine engine = {prepare_product,    multiply,           mp_cuda_cells,
                                           mp_cuda_cells_copy, mp_cuda_cells_fill, mp_cuda_array_zero};

static void release(mp_call *call)
{
    state *s = call->state;
    for (int k = 0; s && k < MP_N_RECURRENT_PRODUCTS; k++) mp_blas_matmul_release(&s->products[k]);
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    state *s = call->state;
    MP_CHECK(mp_recurrence_run(&s->recurrence, &engine, s, x, err));
    return mp_cuda_launched(err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->release = release;
    call->run = run;
    return mp_recurrence_prepare(x, &engine, sizeof(state), call, err);
}

const mp_kernel mp_cuda_recurrents[] = {
    {"LSTM", "", prepare, prepare}, {"GRU", "", prepare, prepare}, {"RNN", "", prepare, prepare}, {0}};
