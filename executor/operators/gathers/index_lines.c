/* index_lines.c - checks that indices, table and other fit together. */
#include "executor/operators/gathers/index_lines.h"

mp_status mp_index_lines_check(const mp_index_lines *lines, const mp_operands *x, mp_error *err)
{
    const mp_array *table = lines->table, *other = lines->other, *indices = lines->indices;
    MP_ENSURE(indices->rank == table->rank && other->rank == table->rank, err, MP_INVALID,
              "%s ('%s'): data, indices and updates differ in rank", x->op->kind, x->op->name);
    for (int d = 0; d < table->rank; d++)
        MP_ENSURE(other->dims[d] == indices->dims[d] && (d == lines->axis || indices->dims[d] <= table->dims[d]), err,
                  MP_INVALID, "%s ('%s'): dimension %d of the indices does not fit", x->op->kind, x->op->name, d);
    return MP_OK;
}

mp_status mp_gather_elements_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_index_lines lines = {&x->in[0], &x->out[0], &x->in[1], mp_operands_axis(x, 0, x->in[0].rank)};
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_CHECK(mp_index_lines_check(&lines, x, err));
    call->adds = x->adds & 1;
    return MP_OK;
}
