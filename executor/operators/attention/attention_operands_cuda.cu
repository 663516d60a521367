/* attention_operands_cuda.cu - computes the seed of dropout and the additive mask for a library's attention. */

#include "executor/cuda/grid/grid.cuh"
#include "executor/kernel/philox.h"

extern "C" {
#include "executor/cuda/device/step_values.h"
#include "executor/operators/attention/attention_operands_cuda.h"
}

namespace
{

struct seed_of {
    const mp_cuda_pass *pass;
    uint32_t op;
    int64_t *seed, *offset;
    MP_BODY void operator()(int64_t) const
    {
        *seed = mp_random_seed(pass->seed, pass->step, op);
        *offset = 0; /* the offset of the random numbers is always 0, because each pass already has a different seed */
    }
};

struct mask_of {
    mp_joint_mask masks;
    const void *added, *positions;
    void *to;
    MP_BODY void operator()(int64_t k) const
    {
        const int64_t column = k % masks.columns, row = k / masks.columns % masks.rows;
        int64_t batch[MP_ARRAY_RANK], at;
        mp_joint_mask_matrix(&masks, k / masks.columns / masks.rows, batch, &at);
        mp_store_float(to, MP_DTYPE_BFLOAT16, at + row * masks.to.row_stride + column,
                       mp_joint_mask_value(&masks, added, positions, batch, row, column));
    }
};

} // namespace

void mp_cuda_attention_seed(const mp_run *run, uint32_t op, int64_t *seed, int64_t *offset)
{
    mp_each(1, seed_of{mp_cuda_pass_of(run), op, seed, offset});
}

void mp_cuda_attention_mask(const mp_joint_mask *masks, const void *added, const void *positions, void *to)
{
    mp_each(masks->n * masks->rows * masks->columns, mask_of{*masks, added, positions, to});
}
