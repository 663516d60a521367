/* element_losses_cpu.c - means over all elements (element_loss.h) on the CPU: partial sums over fixed blocks, added in order.
 */
#include "executor/operators/losses/element_loss.h"

#include "executor/cpu/base/families.h"
#include "executor/kernel/element.h"
#include "executor/operators/elementwise/elementwise_cpu.h"

typedef struct job {
    const mp_element_loss *loss;
    mp_array prediction, target, weight;
    double *sums;
} job;

static const float one = 1;

static job job_of(const mp_call *call, const mp_operands *x)
{
    job j = {call->state, x->in[0], x->in[1], mp_element_loss_weights(x), x->workspace};
    if (j.weight.dtype) return j;
    j.weight = x->in[0];
    j.weight.data = (void *)&one;
    j.weight.dtype = MP_DTYPE_FLOAT;
    for (int d = 0; d < j.weight.rank; d++) j.weight.strides[d] = 0;
    return j;
}

static void sum_block(void *data, int64_t k)
{
    const job *j = data;
    const mp_array *of[] = {&j->prediction, &j->target, &j->weight};
    int64_t n = mp_block_size(mp_array_elements(of[0]), k);
    double sum = 0;
    for (int64_t e = k * MP_BLOCK; e < k * MP_BLOCK + n; e++) {
        int64_t at[3] = {0}, rest = e;
        float values[3];
        for (int d = of[0]->rank - 1; d >= 0; d--) {
            for (int i = 0; i < 3; i++) at[i] += rest % of[0]->dims[d] * of[i]->strides[d];
            rest /= of[0]->dims[d];
        }
        for (int i = 0; i < 3; i++) values[i] = mp_load_float(of[i]->data, of[i]->dtype, at[i]);
        sum += mp_element_loss_value(j->loss, values[0], values[1], values[2]);
    }
    j->sums[k] = sum;
}

#define SLOPES(name, of_kind, slope)                                                                       \
    static void name(const double *p, int64_t n, const float *const *in, float *out)                       \
    {                                                                                                      \
        const mp_element_loss loss = {of_kind, (float)p[1], (float)p[2]};                                  \
        for (int64_t k = 0; k < n; k++) out[k] = (float)p[0] * slope(&loss, in[0][k], in[1][k], in[2][k]); \
    }
SLOPES(squared, MP_ELEMENT_LOSS_SQUARED, mp_element_loss_slope)
SLOPES(huber, MP_ELEMENT_LOSS_HUBER, mp_element_loss_slope)
SLOPES(binary, MP_ELEMENT_LOSS_BINARY, mp_element_loss_slope)
SLOPES(squared_target, MP_ELEMENT_LOSS_SQUARED, mp_element_loss_target_slope)
SLOPES(huber_target, MP_ELEMENT_LOSS_HUBER, mp_element_loss_target_slope)
SLOPES(binary_target, MP_ELEMENT_LOSS_BINARY, mp_element_loss_target_slope)
static const mp_row rows[][2] = {{squared, squared_target}, {huber, huber_target}, {binary, binary_target}};

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const int64_t n = mp_array_elements(&x->in[0]);
    job j = job_of(call, x);
    double total = 0;
    (void)run, (void)err;
    mp_parallel(mp_block_count(n), MP_BLOCK, sum_block, &j);
    for (int64_t k = 0; k < mp_block_count(n); k++) total += j.sums[k];
    mp_store_float(x->out[0].data, x->out[0].dtype, 0, (float)(total / (double)n));
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const job j = job_of(call, x);
    const double dy = (double)mp_load_float(x->d_out[0].data, x->d_out[0].dtype, 0),
                 p[] = {dy / (double)mp_array_elements(&x->in[0]), (double)j.loss->delta, (double)j.loss->scale};
    (void)run, (void)err;
    /* the one that may lie where an operand does comes last */
    for (int i = 1; i >= 0; i--) {
        const mp_array *in[] = {&j.prediction, &j.target, &j.weight};
        if (i >= x->from && i < x->to && x->d_in[i].dtype) mp_elementwise(rows[j.loss->kind][i], p, in, 3, &x->d_in[i]);
    }
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_element_loss_kind kind, mp_call *call, mp_error *err)
{
    mp_element_loss *loss;
    MP_ENSURE(loss = mp_alloc(1, sizeof *loss), err, MP_NOMEM, "out of memory");
    call->state = loss;
    call->run = x->is_backward ? run_backward : run_forward;
    MP_CHECK(mp_element_loss_read(x, kind, loss, err));
    if (!x->is_backward) call->workspace_bytes = mp_block_count(mp_array_elements(&x->in[0])) * (int64_t)sizeof(double);
    return MP_OK;
}

static mp_status prepare_squared(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, MP_ELEMENT_LOSS_SQUARED, call, err);
}
static mp_status prepare_huber(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, MP_ELEMENT_LOSS_HUBER, call, err);
}
static mp_status prepare_binary(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare(x, MP_ELEMENT_LOSS_BINARY, call, err);
}

const mp_kernel mp_cpu_element_losses[] = {
    {"MeanSquaredError", "memplan", prepare_squared, prepare_squared},
    {"HuberLoss", "memplan", prepare_huber, prepare_huber},
    {"BinaryCrossEntropyWithLogits", "memplan", prepare_binary, prepare_binary},
    {0},
};
