/* running_sum.h - CumSum: running sums along an axis, and its gradient, which is a running sum in the opposite direction.
 * Every backend uses this code. */
#pragma once

#include "executor/kernel/body.h"

/* The description of a CumSum. The arrays `from` and `to` are described with size 1 along the axis, so that line k begins at
 * element k. */
typedef struct mp_cumsum {
    mp_array from, to; /* from, to: input and output; in backward, the gradients of the output and of the input */
    int axis;
    int64_t length, from_step, to_step;   /* number of elements along the axis, and their strides in `from` and `to` */
    int64_t adjacent, from_next, to_next; /* number of adjacent lines (elements along the axis), and the strides between these
                                             lines in `from` and `to` */
    /* exclusive: true if a running sum omits its own element; reverse: true if the sums begin at the end of the line */
    bool exclusive, reverse, is_whole;
} mp_cumsum;

/* Prepares a call of CumSum, whose state is an mp_cumsum. MP_UNSUPPORTED: the type is not supported, or the axis is only known
 * at run time; MP_NOMEM. */
mp_status mp_cumsum_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_cumsum_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

/* Number of adjacent lines (elements along the axis) that one work item sums. On the CPU, an item sums many lines, so that it
 * accesses memory in order. */
#ifdef __CUDACC__
enum { MP_CUMSUM_LINES = 1 };
#else
enum { MP_CUMSUM_LINES = 64 };
#endif

/* mp_cumsum_line computes the running sums of one line (floats along the axis), mp_cumsum_rows those of n adjacent lines. */
MP_INLINE void mp_cumsum_line(const mp_cumsum *s, const float *from, float *to)
{
    const int64_t first = s->reverse ? s->length - 1 : 0, sign = s->reverse ? -1 : 1;
    double sum = 0;
    from += first * s->from_step;
    to += first * s->to_step;
    for (int64_t i = 0; i < s->length; i++, from += sign * s->from_step, to += sign * s->to_step) {
        const double before = sum;
        sum += (double)*from;
        *to = (float)(s->exclusive ? before : sum);
    }
}
MP_INLINE void mp_cumsum_rows(const mp_cumsum *s, const float *from, float *to, int64_t n)
{
    double sums[MP_CUMSUM_LINES] = {0};
    for (int64_t i = 0; i < s->length; i++) {
        const int64_t k = s->reverse ? s->length - 1 - i : i;
        for (int64_t e = 0; e < n; e++) {
            const double before = sums[e];
            sums[e] += (double)from[k * s->from_step + e * s->from_next];
            to[k * s->to_step + e * s->to_next] = (float)(s->exclusive ? before : sums[e]);
        }
    }
}

/* Computes the running sums of n adjacent lines (elements along the axis) of any type. The first line begins at offset `from`
 * of the input and offset `to` of the output. Integer sums are exact modulo 2^64. */
MP_INLINE void mp_cumsum_lines(const mp_cumsum *s, int64_t from, int64_t to, int64_t n)
{
    const mp_array *x = &s->from, *y = &s->to;
    double sums[MP_CUMSUM_LINES] = {0};
    uint64_t wholes[MP_CUMSUM_LINES] = {0};
    for (int64_t i = 0; i < s->length; i++) {
        const int64_t k = s->reverse ? s->length - 1 - i : i;
        int64_t in = from + k * s->from_step, out = to + k * s->to_step;
        for (int64_t e = 0; e < n; e++, in += s->from_next, out += s->to_next) {
            const double before = sums[e];
            const uint64_t whole_before = wholes[e];
            if (s->is_whole) {
                wholes[e] += (uint64_t)mp_load_whole(x->data, x->dtype, in);
                mp_store_whole(y->data, y->dtype, out, (int64_t)(s->exclusive ? whole_before : wholes[e]));
            } else {
                sums[e] += mp_load_real(x->data, x->dtype, in);
                mp_store_real(y->data, y->dtype, out, s->exclusive ? before : sums[e]);
            }
        }
    }
}

/* Sums a group of up to MP_CUMSUM_LINES adjacent lines (elements along the axis). The work item of the first line sums the
 * whole group; the work items of the other lines do nothing. */
MP_INLINE void mp_cumsum_item(const mp_cumsum *s, int64_t line)
{
    const mp_array *x = &s->from, *y = &s->to;
    const int64_t at = line % s->adjacent;
    int64_t n = s->adjacent - at;
    if (at % MP_CUMSUM_LINES) return;
    if (n > MP_CUMSUM_LINES) n = MP_CUMSUM_LINES;
    const int64_t from = mp_array_offset(x, 0, x->rank, line), to = mp_array_offset(y, 0, y->rank, line);
    const float *in = (const float *)x->data + from;
    float *out = (float *)y->data + to;
    if (x->dtype != MP_DTYPE_FLOAT || y->dtype != MP_DTYPE_FLOAT)
        mp_cumsum_lines(s, from, to, n);
    else if (n > 1 && s->from_next < s->from_step)
        mp_cumsum_rows(s, in, out, n);
    else
        for (int64_t e = 0; e < n; e++) mp_cumsum_line(s, in + e * s->from_next, out + e * s->to_next);
}
