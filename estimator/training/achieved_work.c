/* achieved_work.c - the kernel of a node of a training graph: its family and the sizes of its product. */
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/model/ops_rules.h"
#include "estimator/rules/operands/einsum.h"
#include "estimator/training/achieved.h"

typedef struct kind_rates {
    const char *kind;
    mp_timed_family forward, backward;
} kind_rates;
static const kind_rates kinds[] = {
#define KIND(operator, forward, backward) {operator, MP_TIMED_##forward, MP_TIMED_##backward},
#include "estimator/training/rates.def"
};

/* The cost of an optimizer in PyTorch's foreach kernels. moved: numbers that these kernels move per element of the parameter.
 * least: numbers that a single fused kernel would move per element. kernels: number of foreach kernels. */
typedef struct foreach_rates {
    const char *optimizer;
    double moved, least, kernels;
} foreach_rates;
static const foreach_rates updates[] = {
#define FOREACH(optimizer, moved, least, kernels) {optimizer, moved, least, kernels},
#include "estimator/training/rates.def"
};
static const double FOREACH_TENSORS = 48; /* most tensors per foreach kernel over three lists (ATen's MultiTensorApply.cuh) */

static bool is_backward(const mp_work *work)
{
    return work->binding && work->binding->task == MP_TASK_BACKWARD;
}

/* True if the node computes the gradient of input 1, which is the weight or the right operand. */
static bool is_of_right(const mp_work *work)
{
    return is_backward(work) && work->binding->from == 1;
}

static mp_rate_kernel kernel_of_matmul(const mp_work *work)
{
    const mp_matrix left = mp_matmul_operand(work->model, work->op, 0), right = mp_matmul_operand(work->model, work->op, 1);
    double rows = (double)left.rows, columns = (double)right.columns, depth = (double)left.columns,
           bytes = (double)work->moved_bytes;
    double batch = work->flops / (2 * rows * columns * depth);
    if (!right.n_batch) { /* a matrix multiplies all matrices of the batch, as their rows */
        rows *= batch;
        batch = 1;
    }
    if (is_of_right(work)) return mp_kernel_of_product(work->dtype, batch, depth, columns, rows, bytes);
    if (is_backward(work)) return mp_kernel_of_product(work->dtype, batch, rows, depth, columns, bytes);
    return mp_kernel_of_product(work->dtype, batch, rows, columns, depth, bytes);
}

static double positions(const mp_tensor *t)
{
    return (double)mp_tensor_elements(t) / (double)t->dims[1];
}

static mp_rate_kernel kernel_of_convolution(const mp_work *work)
{
    const bool is_transposed = work->op->op->traits & MP_TRAIT_TRANSPOSED;
    const mp_tensor *x = mp_operator_in(work->model, work->op, 0), *weight = mp_operator_in(work->model, work->op, 1);
    const mp_tensor *y = mp_operator_out(work->model, work->op, 0);
    /* a transposed convolution is the backward pass of a convolution from y to x */
    const mp_tensor *in = is_transposed ? y : x, *out = is_transposed ? x : y;
    const double groups = (double)mp_operator_int(work->op, "group", 1);
    const mp_rate_convolution c = {.groups = groups,
                                   .in_channels = (double)in->dims[1] / groups,
                                   .out_channels = (double)out->dims[1] / groups,
                                   .window = (double)mp_product(weight->dims, 2, weight->rank),
                                   .in_positions = positions(in),
                                   .out_positions = positions(out),
                                   .is_channels_last = x->stored.layout == MP_LAYOUT_CHANNELS_LAST};
    const mp_convolution_part part = is_of_right(work)                    ? MP_CONVOLUTION_WEIGHT
                                     : is_backward(work) != is_transposed ? MP_CONVOLUTION_DATA
                                                                          : MP_CONVOLUTION_FORWARD;
    return mp_kernel_of_convolution(work->dtype, &c, part, (double)work->moved_bytes);
}

static mp_timed_family rate_of_kind(const mp_work *work)
{
    for (size_t k = 0; work->op && k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(kinds[k].kind, work->op->kind)) return is_backward(work) ? kinds[k].backward : kinds[k].forward;
    return MP_TIMED_POINTWISE;
}

/* Returns the kernel of a product whose sizes have no tiles: attention, recurrent layers and Einsum. */
static mp_rate_kernel kernel_of_flops(const mp_work *work)
{
    const bool is_attention = work->op->op->traits & MP_TRAIT_TILED, is_recurrent = work->op->op->flops == mp_flops_recurrent;
    return (mp_rate_kernel){.family = is_recurrent        ? MP_TIMED_RECURRENT
                                      : !is_attention     ? MP_TIMED_BATCHED_PRODUCT
                                      : is_backward(work) ? MP_TIMED_ATTENTION_BACKWARD
                                                          : MP_TIMED_ATTENTION_FORWARD,
                            .dtype = work->dtype,
                            .moved_bytes = (double)work->moved_bytes,
                            .flops = work->flops};
}

static mp_rate_kernel kernel_of_update(const mp_work *work)
{
    mp_rate_kernel k = {.family = MP_TIMED_UPDATE, .dtype = work->dtype, .moved_bytes = (double)work->moved_bytes};
    for (size_t i = 0; work->foreach && i < sizeof updates / sizeof *updates; i++)
        if (!strcmp(updates[i].optimizer, work->foreach)) {
            k.moved_bytes *= updates[i].moved / updates[i].least;
            k.launch_share = updates[i].kernels / FOREACH_TENSORS;
        }
    return k;
}

mp_rate_kernel mp_kernel_of_work(const mp_work *work)
{
    if (work->binding && work->binding->task == MP_TASK_UPDATE) return kernel_of_update(work);
    if (!work->op || work->flops <= 0)
        return (mp_rate_kernel){.family = rate_of_kind(work), .dtype = work->dtype, .moved_bytes = (double)work->moved_bytes};
    if (work->op->op->traits & MP_TRAIT_CONVOLVES) return kernel_of_convolution(work);
    return work->op->op->flops == mp_flops_matmul ? kernel_of_matmul(work) : kernel_of_flops(work);
}
