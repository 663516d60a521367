/* recurrents_cpu.c - LSTM, GRU and RNN on the CPU: oneDNN computes the products. The cells of a time step run in parallel over
 * the rows of the batch. */
#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/operators/copies/copies_cpu.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/products/products_cpu.h"
#include "executor/operators/recurrent/recurrence.h"

typedef struct state {
    mp_recurrence recurrence;
    mp_dnnl_op products[MP_N_RECURRENT_PRODUCTS];
} state;

static mp_status prepare_product(const mp_operands *x, void *data, mp_recurrent_product k, const mp_stacks *stacks, bool add,
                                 int64_t *bytes, mp_error *err)
{
    state *s = data;
    MP_CHECK(mp_dnnl_matmul(&stacks->a, &stacks->b, &stacks->c, 1, NULL, add, x->op, &s->products[k], err));
    *bytes = s->products[k].scratchpad_bytes;
    return MP_OK;
}

static mp_status multiply(const mp_operands *x, void *data, mp_recurrent_product k, const float *a, const float *b, float *c,
                          void *workspace, mp_error *err)
{
    const mp_dnnl_op *op = &((state *)data)->products[k];
    mp_dnnl_address(op, DNNL_ARG_SRC, (void *)a);
    mp_dnnl_address(op, DNNL_ARG_WEIGHTS, (void *)b);
    mp_dnnl_address(op, DNNL_ARG_DST, c);
    return mp_dnnl_run(op, workspace, x->op, err);
}

/* Define a row of the most common cells as a loop with constant activation functions, which compilers vectorize. */
#define USUAL_ROW(name, element)                                 \
    MP_VECTOR static void name(const mp_cells *given, int64_t b) \
    {                                                            \
        const mp_cells cells = *given, *x = &cells;              \
        MP_INDEPENDENT                                           \
        for (int64_t j = 0; j < cells.hidden; j++) element;      \
    }
#define GATED MP_ACTIVATION_SIGMOID, MP_ACTIVATION_TANH
USUAL_ROW(lstm_forward, mp_lstm_forward(x, b, j, GATED, MP_ACTIVATION_TANH))
USUAL_ROW(lstm_backward, mp_lstm_backward(x, b, j, GATED, MP_ACTIVATION_TANH))
USUAL_ROW(gru_forward, mp_gru_forward(x, b, j, GATED))
USUAL_ROW(gru_backward, mp_gru_backward(x, b, j, GATED))

static void usual_row(void *data, int64_t b)
{
    const mp_cells *x = data;
    const bool forward = x->phase == MP_CELLS_FORWARD;
    if (x->kind == MP_CELL_LSTM)
        (forward ? lstm_forward : lstm_backward)(x, b);
    else
        (forward ? gru_forward : gru_backward)(x, b);
}

static void any_row(void *data, int64_t b)
{
    const mp_cells *x = data;
    for (int64_t j = 0; j < x->hidden; j++) mp_cells_element(x, b, j);
}

static void one_peephole(void *data, int64_t j)
{
    mp_cells_peepholes(data, j);
}

static bool is_usual(const mp_cells *x)
{
    const bool whole = x->phase == MP_CELLS_FORWARD || x->phase == MP_CELLS_BACKWARD;
    return whole && !x->lengths && x->f == MP_ACTIVATION_SIGMOID && x->g == MP_ACTIVATION_TANH &&
           ((x->kind == MP_CELL_LSTM && x->h_of == MP_ACTIVATION_TANH) || (x->kind == MP_CELL_GRU && x->before_reset));
}

static void run_cells(const mp_cells *x)
{
    if (x->phase == MP_CELLS_PEEPHOLES)
        mp_parallel(x->hidden, 4 * x->batch, one_peephole, (void *)x);
    else
        mp_parallel(x->batch, 32 * x->hidden, is_usual(x) ? usual_row : any_row, (void *)x);
}

static void copy(const mp_array *from, const mp_array *to, bool add)
{
    if (add || from->dtype != to->dtype)
        mp_cpu_sum_to(from, to, 1, add);
    else
        mp_cpu_array_copy(from, to);
}

static void fill(float *to, int64_t n, float value)
{
    for (int64_t k = 0; k < n; k++) to[k] = value;
}

static const mp_recurrent_engine engine = {prepare_product, multiply, run_cells, copy, fill, mp_cpu_array_zero};

static void release(mp_call *call)
{
    state *s = call->state;
    for (int k = 0; s && k < MP_N_RECURRENT_PRODUCTS; k++) mp_dnnl_release(&s->products[k]);
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    state *s = call->state;
    return mp_recurrence_run(&s->recurrence, &engine, s, x, err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->release = release;
    call->run = run;
    return mp_recurrence_prepare(x, &engine, sizeof(state), call, err);
}

const mp_kernel mp_cpu_recurrents[] = {
    {"LSTM", "", prepare, prepare}, {"GRU", "", prepare, prepare}, {"RNN", "", prepare, prepare}, {0}};
