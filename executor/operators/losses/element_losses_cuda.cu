/* element_losses_cuda.cu - losses over elements on the GPU. */
#include "executor/cuda/grid/bodies.cuh"
#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/reduce.cuh"

extern "C" {
#include "executor/operators/losses/losses.h"
}

namespace
{

MP_BODY_LOOP(mp_element_slope, mp_element_slope_item)

/* Computes the mean of a loss over elements. Operand 0: prediction, 1: target, 2: weight. */
struct mean_value : mp_float_sum {
    mp_element_loss loss;
    mp_operand a, b, w, to; /* a: prediction; b: target; w: weight, data NULL: all weights are 1 */
    int64_t n;
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        return part{(float)mp_element_loss_value(&loss, a.load(at[0]), b.load(at[1]), w.data ? w.load(at[2]) : 1)};
    }
    MP_BODY void end(const int64_t *, value total) const { to.store(0, (float)(total.x / (double)n)); }
};

static mp_reduce_places<3> mean_places(const mp_operands *x)
{
    const mp_array weights = mp_element_loss_weights(x), *of[] = {&x->in[1], &weights};
    const mp_loops loops = mp_loops_of(of, 2, &x->in[0]);
    return mp_reduce_places<3>(&loops, -1);
}

static mp_status run_mean(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_array weights = mp_element_loss_weights(x);
    const mp_element_loss *loss = (const mp_element_loss *)call->state;
    const mean_value f = {
        {}, *loss, mp_input(x, 0), mp_input(x, 1), mp_operand_of(&weights), mp_output(x, 0), mp_array_elements(&x->in[0])};
    mp_reduce(mean_places(x), f, x->workspace);
    return mp_launched(err);
}

static mp_status run_slopes(const mp_call *call, const mp_operands *x, mp_error *err)
{
    return mp_element_loss_backward(call, x, mp_element_slope_item_loop, err);
}

static mp_status prepare_mean(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = x->is_backward ? run_slopes : run_mean;
    if (!x->is_backward) call->workspace_bytes = mp_reduce_workspace_bytes<3, mean_value>(mean_places(x));
    return mp_element_loss_prepare(x, call, err);
}

} // namespace

#define ROW(kind, is) {kind, "memplan", prepare_mean, prepare_mean},
extern "C" const mp_kernel mp_cuda_element_losses[] = {MP_ELEMENT_LOSSES(ROW){}};
