/* sequences.c - checks the operands of ReverseSequence and OneHot. */
#include "executor/operators/gathers/sequences.h"

mp_status mp_reverse_sequence_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    (void)call;
    int64_t batch = mp_operator_int(x->op, "batch_axis", 1), time = mp_operator_int(x->op, "time_axis", 0);
    int rank = x->in[0].rank;
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_ENSURE(batch >= 0 && batch < rank && time >= 0 && time < rank && batch != time &&
                  mp_array_elements(&x->in[1]) == x->in[0].dims[batch],
              err, MP_INVALID, "%s ('%s'): the axes or the lengths do not fit", x->op->kind, x->op->name);
    return MP_OK;
}

mp_status mp_one_hot_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    static const mp_dtype known[] = {MP_DTYPE_INT64, MP_DTYPE_INT32, MP_DTYPE_UINT8,
                                     MP_DTYPE_INT8,  MP_DTYPE_FLOAT, MP_DTYPE_BFLOAT16};
    mp_status st = MP_OK;
    bool knows = false;
    (void)call;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) knows |= x->in[0].dtype == known[k];
    MP_TRY(mp_indices_check(x, -1, err));
    if (!knows || !mp_array_is_plain(&x->in[0]) || x->in[2].dtype != x->out[0].dtype)
        st = MP_NO_KERNEL(x, err, "operands of these types or layouts");
done:
    return st;
}
