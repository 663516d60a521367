/* sequences.h - ReverseSequence and OneHot, for every backend. A body computes one item, which is a span of a row of the
 * output (body.h). */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* The description of a ReverseSequence, which reverses the order of the first lengths[b] steps of sequence b. Backward
 * reverses the gradient in the same way. */
typedef struct mp_reverse_sequence {
    mp_array from, to, lengths;
    int batch, time; /* axes */
    int size;        /* bytes per element */
} mp_reverse_sequence;

/* Prepares a call of ReverseSequence, whose state is an mp_reverse_sequence. MP_UNSUPPORTED: the type or layout has no kernel;
 * MP_INVALID: axes or lengths do not match; MP_NOMEM. */
mp_status mp_reverse_sequence_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Checks the lengths of a ReverseSequence. MP_INVALID: a length is not between 0 and the number of steps. On the GPU, lengths
 * are clamped instead of checked. */
mp_status mp_reverse_sequence_check(const mp_operands *x, mp_error *err);
mp_status mp_reverse_sequence_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

/* Returns the distance in `from` between the source of an output element and the element with the same indices as the output
 * element. */
MP_INLINE int64_t mp_reverse_sequence_shift(const mp_reverse_sequence *s, int64_t batch, int64_t step)
{
    const int64_t n_steps = s->to.dims[s->time];
    int64_t length = mp_index_of(s->lengths.data, s->lengths.dtype, batch);
    length = length < 0 ? 0 : length > n_steps ? n_steps : length;
    return step < length ? (length - 1 - 2 * step) * s->from.strides[s->time] : 0;
}

MP_INLINE void mp_reverse_sequence_item(const mp_reverse_sequence *s, int64_t k)
{
    const mp_array *x = &s->from, *y = &s->to;
    const mp_row_span span = mp_row_span_of(y, k);
    const int last = y->rank - 1;
    const int64_t from = mp_array_offset(x, 0, last, span.row), to = mp_array_offset(y, 0, last, span.row);
    int64_t left = span.row, batch = 0, step = 0;
    for (int d = last - 1; d >= 0; d--) {
        if (d == s->batch) batch = left % y->dims[d];
        if (d == s->time) step = left % y->dims[d];
        left /= y->dims[d];
    }
    /* if the last axis is the batch or the time axis, the columns of a span (a part of a row) are copied one by one, else all
     * at once */
    const int64_t n = s->batch == last || s->time == last ? 1 : span.end - span.first;
    for (int64_t c = span.first; c < span.end; c += n) {
        const int64_t shift = mp_reverse_sequence_shift(s, s->batch == last ? c : batch, s->time == last ? c : step);
        const int64_t to_at = to + c * y->strides[last], from_at = from + c * x->strides[last] + shift;
        mp_elements_copy(y->data, to_at, y->strides[last], x->data, from_at, x->strides[last], n, s->size);
    }
}

/* The description of a OneHot: writes `on` for the class that an index selects, and `off` for all other classes. */
typedef struct mp_one_hot {
    mp_array indices, values, y; /* values: `off` is element 0, `on` element 1 */
    int axis;
    int64_t inner; /* inner: number of elements after the axis that OneHot inserts */
    int size;      /* bytes per element of y */
} mp_one_hot;

/* Prepares a call of OneHot, whose state is an mp_one_hot. MP_UNSUPPORTED: the type or layout has no kernel; MP_NOMEM. */
mp_status mp_one_hot_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_one_hot_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

/* Returns the class that element `index` of the indices selects. Negative indices count from the end; a NaN selects no class.
 */
MP_INLINE int64_t mp_one_hot_class(const mp_one_hot *s, int64_t index, int64_t depth)
{
    const int64_t which = mp_load_whole(s->indices.data, s->indices.dtype, index);
    return which < 0 ? which + depth : which;
}

MP_INLINE void mp_one_hot_item(const mp_one_hot *s, int64_t k)
{
    const mp_array *y = &s->y;
    const mp_row_span span = mp_row_span_of(y, k);
    const int last = y->rank - 1;
    const int64_t depth = y->dims[s->axis], to = mp_array_offset(y, 0, last, span.row), begin = span.row * y->dims[last];
    const int64_t index = begin / s->inner / depth * s->inner + begin % s->inner, own = begin / s->inner % depth;
    const int64_t step = y->strides[last];
    if (s->axis == last) { /* the inserted axis is the last dimension, so all columns of a row belong to the same index */
        const int64_t which = mp_one_hot_class(s, index, depth);
        mp_elements_copy(y->data, to + span.first * step, step, s->values.data, 0, 0, span.end - span.first, s->size);
        if (which >= span.first && which < span.end) mp_element_copy(y->data, to + which * step, s->values.data, 1, s->size);
        return;
    }
    for (int64_t c = span.first; c < span.end; c++)
        mp_element_copy(y->data, to + c * step, s->values.data, mp_one_hot_class(s, index + c, depth) == own, s->size);
}
