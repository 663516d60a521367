/* element_losses_cuda.cu - means over all elements (element_loss.h) on the GPU. */
#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/reduce.cuh"
extern "C" {
#include "executor/operators/losses/element_loss.h"
}

namespace
{

/* The weight of an element; data NULL: 1. */
struct element_weight {
    mp_operand of;
    MP_BODY float load(int64_t at) const { return of.data ? of.load(at) : 1; }
};

/* Operand 0: prediction, 1: target, 2: weight. */
struct mean_value : mp_float_sum {
    mp_element_loss loss;
    mp_operand a, b, to;
    element_weight w;
    int64_t n;
    MP_BODY part at(const int64_t *at, int64_t) const
    {
        return part{(float)mp_element_loss_value(&loss, a.load(at[0]), b.load(at[1]), w.load(at[2]))};
    }
    MP_BODY void end(const int64_t *, value total) const { to.store(0, (float)(total.x / (double)n)); }
};

/* Operand 0: where the gradient goes, 1: prediction, 2: target, 3: weight. */
struct mean_slope {
    mp_element_loss loss;
    mp_operand a, b, dy, to;
    element_weight w;
    double share; /* of an element in the mean */
    bool of_target;
    MP_BODY void operator()(int64_t, const int64_t *at) const
    {
        const float p = a.load(at[1]), t = b.load(at[2]), weight = w.load(at[3]);
        const float slope =
            of_target ? mp_element_loss_target_slope(&loss, p, t, weight) : mp_element_loss_slope(&loss, p, t, weight);
        to.store(at[0], (float)(dy.load(0) * share) * slope);
    }
};

/* The weights beside the prediction; without any, what may stand in their place since nobody reads it. */
static mp_array weights_of(const mp_operands *x)
{
    const mp_array all = mp_element_loss_weights(x);
    return all.dtype ? all : x->in[0];
}
static element_weight weight_of(const mp_operands *x)
{
    const mp_array all = mp_element_loss_weights(x);
    return element_weight{mp_operand{all.dtype ? all.data : NULL, all.dtype}};
}

static mp_reduce_places<3> places(const mp_operands *x)
{
    const mp_array weights = weights_of(x), *of[] = {&x->in[1], &weights};
    const mp_loops loops = mp_loops_of(of, 2, &x->in[0]);
    return mp_reduce_places<3>(&loops, -1);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    mean_value f;
    f.loss = *(const mp_element_loss *)call->state;
    f.a = mp_input(x, 0);
    f.b = mp_input(x, 1);
    f.w = weight_of(x);
    f.to = mp_output(x, 0);
    f.n = mp_array_elements(&x->in[0]);
    mp_reduce(places(x), f, x->workspace);
    return mp_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *, mp_error *err)
{
    const mp_array weights = weights_of(x);
    /* the one that may lie where an operand does comes last */
    for (int i = 1; i >= 0; i--) {
        if (i < x->from || i >= x->to || !x->d_in[i].dtype) continue;
        const mp_array *in[] = {&x->in[0], &x->in[1], &weights};
        const mp_loops loops = mp_loops_of(in, 3, &x->d_in[i]);
        const mean_slope f = {*(const mp_element_loss *)call->state,
                              mp_input(x, 0),
                              mp_input(x, 1),
                              mp_operand_of(&x->d_out[0]),
                              mp_input_gradient(x, i),
                              weight_of(x),
                              1.0 / (double)mp_array_elements(&x->in[0]),
                              i == 1};
        mp_each_placed<4>(&loops, f);
    }
    return mp_launched(err);
}

template <mp_element_loss_kind KIND> static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_element_loss loss;
    mp_status st = mp_element_loss_read(x, KIND, &loss, err);
    if (st) return st;
    mp_element_loss *kept = mp_new_state<mp_element_loss>(call);
    if (!kept) return MP_NO_MEMORY(err);
    *kept = loss;
    call->run = x->is_backward ? run_backward : run_forward;
    if (!x->is_backward) call->workspace_bytes = mp_reduce_workspace_bytes<3, mean_value>(places(x));
    return MP_OK;
}

} // namespace

extern "C" const mp_kernel mp_cuda_element_losses[] = {
    {"MeanSquaredError", "memplan", prepare<MP_ELEMENT_LOSS_SQUARED>, prepare<MP_ELEMENT_LOSS_SQUARED>},
    {"HuberLoss", "memplan", prepare<MP_ELEMENT_LOSS_HUBER>, prepare<MP_ELEMENT_LOSS_HUBER>},
    {"BinaryCrossEntropyWithLogits", "memplan", prepare<MP_ELEMENT_LOSS_BINARY>, prepare<MP_ELEMENT_LOSS_BINARY>},
    {},
};
