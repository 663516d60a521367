/* running_sum.h - CumSum: sums along an axis up to each element, and its gradient, which is one from the other end. For every
 * backend. */
#pragma once

#include "executor/kernel/body.h"

/* The arrays have one element along the axis: line k begins at their element k. */
typedef struct mp_cumsum {
    mp_array from, to; /* backward the gradients */
    int axis;
    int64_t length, from_step, to_step; /* along the axis */
    bool exclusive, reverse, is_whole;  /* an element is not in its own sum; sums begin at the end */
} mp_cumsum;

/* The description becomes the call's state. MP_UNSUPPORTED: a type, or an axis that is computed while it runs; MP_NOMEM. */
mp_status mp_cumsum_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_cumsum_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

/* One line. Whole numbers are exact modulo 2^64. */
MP_INLINE void mp_cumsum_item(const mp_cumsum *s, int64_t line)
{
    const mp_array *x = &s->from, *y = &s->to;
    const int64_t begin = mp_array_place(x, 0, x->rank, line), to_begin = mp_array_place(y, 0, y->rank, line);
    double sum = 0;
    uint64_t whole = 0;
    if (x->dtype == MP_DTYPE_FLOAT && y->dtype == MP_DTYPE_FLOAT) { /* most often: nothing but sums within the loop */
        const int64_t first = s->reverse ? s->length - 1 : 0, sign = s->reverse ? -1 : 1;
        const float *from = (const float *)x->data + begin + first * s->from_step;
        float *to = (float *)y->data + to_begin + first * s->to_step;
        for (int64_t i = 0; i < s->length; i++, from += sign * s->from_step, to += sign * s->to_step) {
            const double before = sum;
            sum += (double)*from;
            *to = (float)(s->exclusive ? before : sum);
        }
        return;
    }
    for (int64_t i = 0; i < s->length; i++) {
        const int64_t k = s->reverse ? s->length - 1 - i : i, from = begin + k * s->from_step, to = to_begin + k * s->to_step;
        const double before = sum;
        const uint64_t whole_before = whole;
        if (s->is_whole) {
            whole += (uint64_t)mp_load_whole(x->data, x->dtype, from);
            mp_store_whole(y->data, y->dtype, to, (int64_t)(s->exclusive ? whole_before : whole));
        } else {
            sum += mp_load_real(x->data, x->dtype, from);
            mp_store_real(y->data, y->dtype, to, s->exclusive ? before : sum);
        }
    }
}
