/* triangle.h - Trilu copies a triangle of each matrix; its gradient is the same triangle of dy. Every backend uses this code.
 */
#pragma once

#include "executor/kernel/body.h"

/* Copies the upper or lower triangle of `from` to `to`, with zeros elsewhere; an item is an mp_row_span. */
typedef struct mp_trilu {
    mp_array from, to;
    bool upper, add; /* add: accumulates into `to` */
    int size;        /* bytes per element */
    int64_t diagonal;
    bool is_computed;
    const int64_t *computed; /* address of the diagonal's number, if a node computes this number at run time */
} mp_trilu;

/* Prepares a call of Trilu, whose state is an mp_trilu. A constant diagonal is read when the call is prepared, because backward
 * cannot read this operand when it runs. MP_UNSUPPORTED: the type or layout is not supported, or the diagonal of a gradient is
 * computed at run time; MP_NOMEM. */
mp_status mp_trilu_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_trilu_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

MP_INLINE void mp_trilu_item(const mp_trilu *s, int64_t k)
{
    const mp_array *x = &s->from, *y = &s->to;
    const mp_row_span span = mp_row_span_of(y, k);
    const int last = y->rank - 1;
    const int64_t rows = y->dims[last - 1], columns = y->dims[last], r = span.row % rows;
    const int64_t from = mp_array_offset(x, 0, last, span.row), to = mp_array_offset(y, 0, last, span.row);
    const int64_t x_step = x->strides[last], y_step = y->strides[last];
    int64_t edge = s->computed ? *s->computed : s->diagonal;
    edge = edge > columns ? columns
           : edge < -rows ? -rows
                          : edge; /* a diagonal outside of the matrix selects the same elements as a diagonal at its edge */
    /* lower triangle: end of the copied columns of row r (the column after the last one); upper triangle: its first copied
     * column */
    edge += r + !s->upper;
    edge = edge < span.first ? span.first : edge > span.end ? span.end : edge;
    const int64_t first = s->upper ? edge : span.first, end = s->upper ? span.end : edge;
    for (int64_t c = first; s->add && c < end; c++) {
        const int64_t at = to + c * y_step;
        mp_array_store(y, at, mp_array_load(y, at) + mp_array_load(x, from + c * x_step));
    }
    if (s->add) return;
    mp_elements_copy(y->data, to + span.first * y_step, y_step, NULL, 0, 1, first - span.first, s->size);
    mp_elements_copy(y->data, to + first * y_step, y_step, x->data, from + first * x_step, x_step, end - first, s->size);
    mp_elements_copy(y->data, to + end * y_step, y_step, NULL, 0, 1, span.end - end, s->size);
}
