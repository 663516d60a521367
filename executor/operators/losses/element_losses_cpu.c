/* element_losses_cpu.c - means over all elements (element_loss.h) on the CPU: partial sums over fixed blocks, added in order.
 */
#include "executor/operators/losses/element_loss.h"

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"

MP_BODY_LOOP(mp_element_slope, mp_element_slope_item)

typedef struct job {
    const mp_element_loss *loss;
    mp_array prediction, target, weight;
    double *sums;
} job;

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
        for (int i = 0; i < 3; i++) values[i] = of[i]->data ? mp_array_load(of[i], at[i]) : 1;
        sum += mp_element_loss_value(j->loss, values[0], values[1], values[2]);
    }
    j->sums[k] = sum;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const int64_t n = mp_array_elements(&x->in[0]);
    job j = {call->state, x->in[0], x->in[1], mp_element_loss_weights(x), x->workspace};
    double total = 0;
    (void)err;
    mp_parallel(mp_block_count(n), MP_BLOCK, sum_block, &j);
    for (int64_t k = 0; k < mp_block_count(n); k++) total += j.sums[k];
    mp_array_store(&x->out[0], 0, (float)(total / (double)n));
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    return mp_element_loss_backward(call, x, mp_element_slope_item_loop, err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = x->is_backward ? run_backward : run_forward;
    if (!x->is_backward) call->workspace_bytes = mp_block_count(mp_array_elements(&x->in[0])) * (int64_t)sizeof(double);
    return mp_element_loss_prepare(x, call, err);
}

#define ROW(kind, is) {kind, "memplan", prepare, prepare},
const mp_kernel mp_cpu_element_losses[] = {MP_ELEMENT_LOSSES(ROW){0}};
