/* layouts.c - chooses channels-last layouts and aligned rows if tensor cores are used, else plain row-major layouts.
 *
 * cuDNN's kernels for tensor cores read channels-last tensors. For tensors in other layouts, these kernels transpose a copy of
 * every activation in their workspace. The kernels for float32 without TF32 read row-major tensors, and copy channels-last
 * ones. Example: a 3x3 convolution of 32 x 64 x 56 x 56 on an H200. In bfloat16, cuDNN copies 19 MB if the tensors are
 * row-major, and nothing if they are channels-last. In float32, cuDNN copies nothing if they are row-major, and 39 MB if they
 * are channels-last. */
#include "executor/cuda/layouts.h"

#include "estimator/model/ops.h"
#include "estimator/model/order.h"
#include "executor/cuda/device/context.h"
#include "executor/operators/aligned_rows.h"
#include "executor/operators/attention/packed_operands.h"
#include "executor/operators/fusions.h"
#include "executor/operators/layouts.h"

/* True if all readers of tensor t are convolutions that read it as their filter. */
static bool is_filter(const mp_model *model, const mp_consumers *consumers, int t)
{
    bool filter = consumers->start[t] < consumers->start[t + 1];
    for (int k = consumers->start[t]; filter && k < consumers->start[t + 1]; k++) {
        const mp_operator *op = &model->operators[consumers->list[k]];
        filter = op->n_in > 1 && op->in[0] != t && op->in[1] == t && (op->op->traits & MP_TRAIT_CONVOLVES);
    }
    return filter;
}

static mp_status lay_channels_last(mp_model *model, mp_error *err)
{
    MP_CLEARED_BY(mp_consumers_free) mp_consumers consumers = {0};
    MP_CHECK(mp_layouts_choose(model, err));
    MP_CHECK(mp_model_consumers(model, &consumers, err));
    for (size_t t = 0; t < model->n_tensors; t++) {
        mp_tensor *x = &model->tensors[t];
        if (x->role == MP_ROLE_PARAMETER && x->rank >= 3 && is_filter(model, &consumers, (int)t))
            x->stored.layout = MP_LAYOUT_CHANNELS_LAST;
    }
    return MP_OK;
}

mp_status mp_cuda_adapt(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err)
{
    MP_ENSURE(dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16, err, MP_UNSUPPORTED,
              "the GPU computes in fp32 or bf16, not in %s", mp_dtype_name(dtype));
    if (dtype == MP_DTYPE_BFLOAT16 || mp_cuda_use(self)->settings.tf32) {
        MP_CHECK(lay_channels_last(model, err));
        MP_CHECK(mp_align_rows(model, err));
    }
    MP_CHECK(mp_pack_attention(model, err));
    return mp_fuse_batch_normalizations(model, err);
}
