/* twin_recurrents.c - LSTM, GRU and RNN of the twin; products are plain loops. */
#include "tests/cuda/twin/twin_recurrents.h"

#include "executor/operators/copies/boxes_cuda.h"
#include "executor/operators/recurrent/cells_cuda.h"
#include "executor/operators/recurrent/recurrence.h"

typedef struct state {
    mp_recurrence recurrence;
    mp_stacks products[MP_N_RECURRENT_PRODUCTS];
    bool adds[MP_N_RECURRENT_PRODUCTS];
} state;

static mp_status prepare_product(const mp_operands *x, void *data, mp_recurrent_product k, const mp_stacks *stacks, bool add,
                                 int64_t *bytes, mp_error *err)
{
    state *s = data;
    (void)x, (void)err;
    s->products[k] = *stacks;
    s->adds[k] = add;
    *bytes = 0;
    return MP_OK;
}

static mp_status multiply(const mp_operands *x, void *data, mp_recurrent_product k, const float *a, const float *b, float *c,
                          void *workspace, mp_error *err)
{
    const state *s = data;
    const mp_stack *sa = &s->products[k].a, *sb = &s->products[k].b, *sc = &s->products[k].c;
    (void)x, (void)workspace, (void)err;
    for (int64_t i = 0; i < sc->rows; i++)
        for (int64_t j = 0; j < sc->columns; j++) {
            float *to = &c[i * sc->row_stride + j * sc->column_stride];
            double sum = s->adds[k] ? (double)*to : 0;
            for (int64_t t = 0; t < sa->columns; t++)
                sum += (double)a[i * sa->row_stride + t * sa->column_stride] *
                       (double)b[t * sb->row_stride + j * sb->column_stride];
            *to = (float)sum;
        }
    return MP_OK;
}

static const mp_recurrent_engine engine = {prepare_product,    multiply,           mp_cuda_cells,
                                           mp_cuda_cells_copy, mp_cuda_cells_fill, mp_cuda_array_zero};

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    state *s = call->state;
    return mp_recurrence_run(&s->recurrence, &engine, s, x, err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run;
    return mp_recurrence_prepare(x, &engine, sizeof(state), call, err);
}

const mp_kernel mp_twin_recurrents[] = {
    {"LSTM", "", prepare, prepare}, {"GRU", "", prepare, prepare}, {"RNN", "", prepare, prepare}, {0}};
