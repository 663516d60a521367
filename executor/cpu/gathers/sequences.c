/* gather_sequences.c - ReverseSequence and OneHot. */
#include <inttypes.h>
#include <string.h>

#include "executor/cpu/parallel.h"
#include "executor/operators/gathers/row_entries.h"
#include "executor/operators/moves/moving.h"

/* The first `length` steps of each sequence change places, backward as forward. */
static mp_status run_reverse(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_array *from = x->is_backward ? &x->d_out[0] : &x->in[0], *to = x->is_backward ? &x->d_in[0] : &x->out[0];
    int size = mp_dtype_bits(to->dtype) / 8, batch = (int)mp_operator_int(x->op, "batch_axis", 1),
        time = (int)mp_operator_int(x->op, "time_axis", 0);
    int64_t steps = to->dims[time];
    (void)call, (void)run;
    for (int64_t b = 0; b < to->dims[batch]; b++) {
        int64_t length = mp_index_at(&x->in[1], b);
        if (length < 0 || length > steps)
            return MP_FAIL(err, MP_INVALID, "%s ('%s'): a sequence of %" PRId64 " steps where there are %" PRId64, x->op->kind,
                           x->op->name, length, steps);
        mp_box turned = {0}, kept = {0};
        for (int d = 0; d < to->rank; d++) {
            if (d == batch) continue;
            mp_box_put(&turned, d == time ? length : to->dims[d], d == time ? -from->strides[d] : from->strides[d],
                       to->strides[d]);
            mp_box_put(&kept, d == time ? steps - length : to->dims[d], from->strides[d], to->strides[d]);
        }
        const char *read = (const char *)from->data + b * from->strides[batch] * size;
        char *write = (char *)to->data + b * to->strides[batch] * size;
        if (length > 0) mp_box_copy(&turned, size, read + (length - 1) * from->strides[time] * size, write);
        if (length < steps)
            mp_box_copy(&kept, size, read + length * from->strides[time] * size, write + length * to->strides[time] * size);
    }
    return MP_OK;
}

mp_status mp_prepare_reverse_sequence(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    int64_t batch = mp_operator_int(x->op, "batch_axis", 1), time = mp_operator_int(x->op, "time_axis", 0);
    int rank = x->in[0].rank;
    MP_TRY(mp_check_picking(x, 1, err));
    MP_REQUIRE(batch >= 0 && batch < rank && time >= 0 && time < rank && batch != time &&
                   mp_array_elements(&x->in[1]) == x->in[0].dims[batch],
               err, MP_INVALID, "%s ('%s'): the axes or the lengths do not fit", x->op->kind, x->op->name);
    call->run = run_reverse;
done:
    return st;
}

/* Index k, of which the whole part counts. What is no such number lies outside all classes. */
static int64_t class_at(const mp_array *indices, int64_t k)
{
    float room, value;
    switch (indices->dtype) {
    case MP_DTYPE_UINT8:
        return ((const uint8_t *)indices->data)[k];
    case MP_DTYPE_INT8:
        return ((const int8_t *)indices->data)[k];
    case MP_DTYPE_FLOAT:
    case MP_DTYPE_BFLOAT16:
        value = *mp_floats(indices->data, indices->dtype, k, 1, &room);
        return value > -1e15f && value < 1e15f ? (int64_t)value : INT64_MIN;
    default:
        return mp_index_at(indices, k);
    }
}

/* An index outside the classes gives a row of off values. */
static mp_status run_one_hot(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_array *indices = &x->in[0], *out = &x->out[0];
    const char *values = x->in[2].data; /* off, on */
    int size = mp_dtype_bits(out->dtype) / 8, axis = (int)mp_operator_int(x->op, "axis", -1);
    int64_t n = mp_array_elements(indices);
    mp_box all = {0};
    (void)call, (void)run, (void)err;
    if (axis < 0) axis += out->rank;
    for (int d = 0; d < out->rank; d++) mp_box_put(&all, out->dims[d], 0, out->strides[d]);
    mp_box_copy(&all, size, values, out->data);
    for (int64_t k = 0; k < n; k++) {
        int64_t which = class_at(indices, k), depth = out->dims[axis], rest = k, at;
        if (which < -depth || which >= depth) continue;
        at = (which < 0 ? which + depth : which) * out->strides[axis];
        for (int d = out->rank - 1; d >= 0; d--) {
            if (d == axis) continue;
            at += rest % out->dims[d] * out->strides[d];
            rest /= out->dims[d];
        }
        memcpy((char *)out->data + at * size, values + size, (size_t)size);
    }
    return MP_OK;
}

mp_status mp_prepare_one_hot(const mp_operands *x, mp_call *call, mp_error *err)
{
    static const mp_dtype known[] = {MP_DTYPE_INT64, MP_DTYPE_INT32, MP_DTYPE_UINT8,
                                     MP_DTYPE_INT8,  MP_DTYPE_FLOAT, MP_DTYPE_BFLOAT16};
    mp_status st = MP_OK;
    bool knows = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) knows |= x->in[0].dtype == known[k];
    MP_TRY(mp_check_picking(x, -1, err));
    if (!knows || !mp_array_is_plain(&x->in[0]) || x->in[2].dtype != x->out[0].dtype)
        st = MP_NO_KERNEL(x, err, "operands of these types or layouts");
    else
        call->run = run_one_hot;
done:
    return st;
}
