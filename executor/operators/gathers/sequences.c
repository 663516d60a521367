/* sequences.c - fills the descriptions of ReverseSequence and OneHot from their operands. */
#include "executor/operators/gathers/sequences.h"

#include <inttypes.h>

mp_status mp_reverse_sequence_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    int64_t batch = mp_operator_int(x->op, "batch_axis", 1), time = mp_operator_int(x->op, "time_axis", 0);
    int rank = x->in[0].rank;
    MP_CHECK(mp_indices_check(x, 1, err));
    MP_ENSURE(batch >= 0 && batch < rank && time >= 0 && time < rank && batch != time &&
                  mp_array_elements(&x->in[1]) == x->in[0].dims[batch],
              err, MP_INVALID, "%s ('%s'): the axes or the number of lengths do not match the input", x->op->kind, x->op->name);
    MP_STATE(mp_reverse_sequence, s, call, err);
    s->batch = (int)batch;
    s->time = (int)time;
    s->size = mp_dtype_bits(x->out[0].dtype) / 8;
    return MP_OK;
}

mp_status mp_reverse_sequence_check(const mp_operands *x, mp_error *err)
{
    const mp_array *lengths = &x->in[1];
    int64_t steps = x->in[0].dims[mp_operator_int(x->op, "time_axis", 0)];
    for (int64_t b = 0; b < mp_array_elements(lengths); b++) {
        int64_t length = mp_index_at(lengths, b);
        if (length < 0 || length > steps)
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): a sequence of %" PRId64 " steps exceeds the length %" PRId64,
                           x->op->kind, x->op->name, length, steps);
    }
    return MP_OK;
}

mp_status mp_reverse_sequence_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    mp_reverse_sequence s = *(const mp_reverse_sequence *)call->state;
    s.from = x->is_backward ? x->d_out[0] : x->in[0];
    s.to = x->is_backward ? x->d_in[0] : x->out[0];
    s.lengths = x->in[1];
    return loop(&s, mp_row_spans(&s.to), MP_ROW_SPAN, err);
}

mp_status mp_one_hot_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    static const mp_dtype known[] = {MP_DTYPE_INT64, MP_DTYPE_INT32, MP_DTYPE_UINT8,
                                     MP_DTYPE_INT8,  MP_DTYPE_FLOAT, MP_DTYPE_BFLOAT16};
    const mp_array *out = &x->out[0];
    bool knows = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) knows |= x->in[0].dtype == known[k];
    MP_CHECK(mp_indices_check(x, -1, err));
    if (!knows || !mp_array_is_plain(&x->in[0]) || x->in[2].dtype != out->dtype)
        return MP_NO_KERNEL(x, err, "operands of these types or layouts");
    MP_STATE(mp_one_hot, s, call, err);
    s->axis = mp_operands_axis(x, -1, out->rank);
    s->size = mp_dtype_bits(out->dtype) / 8;
    s->inner = 1;
    for (int d = s->axis + 1; d < out->rank; d++) s->inner *= out->dims[d];
    return MP_OK;
}

mp_status mp_one_hot_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err)
{
    mp_one_hot s = *(const mp_one_hot *)call->state;
    s.indices = x->in[0];
    s.values = x->in[2];
    s.y = x->out[0];
    return loop(&s, mp_row_spans(&s.y), MP_ROW_SPAN, err);
}
