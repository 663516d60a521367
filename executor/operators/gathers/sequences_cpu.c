/* sequences_cpu.c - ReverseSequence and OneHot. */
#include "executor/operators/gathers/sequences.h"

#include <inttypes.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/copies/strided_copy_cpu.h"

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

/* Index k, of which the whole part counts. What is no such number lies outside all classes. */
static int64_t class_at(const mp_array *indices, int64_t k)
{
    switch (indices->dtype) {
    case MP_DTYPE_UINT8:
        return ((const uint8_t *)indices->data)[k];
    case MP_DTYPE_INT8:
        return ((const int8_t *)indices->data)[k];
    case MP_DTYPE_FLOAT:
    case MP_DTYPE_BFLOAT16:
        return mp_whole_of((double)mp_load_float(indices->data, indices->dtype, k));
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
    mp_box all = mp_box_of(NULL, out);
    (void)call, (void)run, (void)err;
    if (axis < 0) axis += out->rank;
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

static mp_status prepare_reverse(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_reverse;
    return mp_reverse_sequence_prepare(x, call, err);
}

static mp_status prepare_one_hot(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_one_hot;
    return mp_one_hot_prepare(x, call, err);
}

const mp_kernel mp_cpu_sequences[] = {
    {"ReverseSequence", "", prepare_reverse, prepare_reverse},
    {"OneHot", "", prepare_one_hot, NULL},
    {0},
};
