/* attention_mask.c - the layout of the mask that others become. */
#include "executor/operators/attention/attention_mask.h"

#include "estimator/base/memory.h"

enum { ROW_UNIT = 8 }; /* elements of 16 bytes */

static bool varies(const mp_matrices *m, int d)
{
    return m->dtype && m->batch_stride[d];
}

bool mp_joint_mask_read(const mp_attention_spec *form, mp_joint_mask *out, int64_t *bytes)
{
    const mp_attention *size = &form->size;
    int64_t extent;
    *out = (mp_joint_mask){.added = form->added,
                           .positions = form->positions,
                           .to = {.dtype = MP_DTYPE_BFLOAT16, .n_batch = form->q.n_batch, .column_stride = 1},
                           .rows = size->rows,
                           .columns = size->columns,
                           .n = 1,
                           .fill = form->fill,
                           .keeps = form->keeps};
    if (!mp_round_up(size->columns, ROW_UNIT, &out->to.row_stride) || !mp_multiply(out->to.row_stride, size->rows, &extent))
        return false;
    for (int d = form->q.n_batch - 1; d >= 0; d--) {
        out->to.batch[d] = form->q.batch[d];
        if (!varies(&form->added, d) && !varies(&form->positions, d)) continue;
        out->to.batch_stride[d] = extent;
        out->n *= form->q.batch[d];
        if (!mp_multiply(extent, form->q.batch[d], &extent)) return false;
    }
    return mp_multiply(extent, (int64_t)sizeof(uint16_t), bytes);
}
