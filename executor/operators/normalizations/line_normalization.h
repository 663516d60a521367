/* line_normalization.h - LpNormalization and LRN for every backend. Both compute sums along the lines of one dimension. */
#pragma once

#include "executor/kernel/body.h"

/* The description of an LpNormalization or LRN: the state of its calls. All arrays have the layout of x. */
typedef struct mp_line_normalization {
    mp_array x, y, dy, dx;
    /* describes x with size 1 along the normalized dimension: element k of `lines` is the first element of line k */
    mp_array lines;
    int64_t n_lines, length, stride;
    bool is_backward;
    int p;                 /* for LpNormalization: the exponent of the norm, 1 or 2 */
    int64_t before, after; /* for LRN: the number of neighbours before and after an element */
    float alpha, beta, bias;
    float *scale;  /* LRN's extra output `scale`, in the layout of x; NULL: not saved */
    float *direct; /* workspace of LRN's backward, in the layout of x: dy scale^-beta, the direct part of each gradient */
    float *terms;  /* workspace of LRN's backward, in the layout of x: dy x scale^(-beta - 1), the contribution of an element to
                      its neighbours' gradients */
} mp_line_normalization;
typedef mp_line_normalization mp_lp, mp_lrn;

/* Prepare calls of LpNormalization and LRN, whose state is an mp_line_normalization. MP_UNSUPPORTED: the type is neither FLOAT
 * nor BFLOAT16; MP_NOMEM. */
mp_status mp_lp_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_lrn_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_lp_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);
mp_status mp_lrn_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);

MP_INLINE int64_t mp_line_begin(const mp_line_normalization *s, int64_t k)
{
    return mp_array_offset(&s->lines, 0, s->lines.rank, k);
}

/* Computes line k (elements along one dimension) of LpNormalization. Forward: y = x / norm. Backward: dx = (dy - y' sum(dy y))
 * / norm, where y' is y, or for p = 1 the sign of x. If the norm is 0, y and dx are 0. */
MP_INLINE void mp_lp_item(const mp_line_normalization *s, int64_t k)
{
    const int64_t begin = mp_line_begin(s, k);
    double norm = 0, sum = 0;
    for (int64_t e = 0; e < s->length; e++) {
        const int64_t at = begin + e * s->stride;
        const double v = (double)mp_array_load(&s->x, at);
        norm += s->p == 1 ? fabs(v) : v * v;
        if (s->is_backward) sum += (double)mp_array_load(&s->dy, at) * (double)mp_array_load(&s->y, at);
    }
    if (s->p != 1) norm = sqrt(norm);
    for (int64_t e = 0; e < s->length; e++) {
        const int64_t at = begin + e * s->stride;
        const double v = (double)mp_array_load(&s->x, at);
        if (s->is_backward) {
            const double slope = s->p == 1 ? (v > 0) - (v < 0) : (double)mp_array_load(&s->y, at);
            const double dy = (double)mp_array_load(&s->dy, at);
            mp_array_store(&s->dx, at, norm > 0 ? (float)((dy - slope * sum) / norm) : 0);
        } else {
            mp_array_store(&s->y, at, norm > 0 ? (float)(v / norm) : 0);
        }
    }
}

/* Computes one line (elements along one dimension) of LRN (Krizhevsky, Sutskever, Hinton 2012): y = x scale^-beta with scale =
 * bias + alpha / size * (sum of squares of the element and its neighbours). s->alpha is alpha / size. */
MP_INLINE void mp_lrn_forward(const mp_line_normalization *s, int64_t begin)
{
    for (int64_t c = 0; c < s->length; c++) {
        const int64_t at = begin + c * s->stride;
        double sum = 0;
        for (int64_t o = c < s->before ? 0 : c - s->before; o <= c + s->after && o < s->length; o++) {
            const double v = (double)mp_array_load(&s->x, begin + o * s->stride);
            sum += v * v;
        }
        const float scale = s->bias + s->alpha * (float)sum;
        if (s->scale) s->scale[at] = scale;
        mp_array_store(&s->y, at, mp_array_load(&s->x, at) * powf(scale, -s->beta));
    }
}

/* Computes the gradient of one line (elements along one dimension) of LRN. With the scales s_c of forward: dx_c = dy_c
 * s_c^-beta - 2 s->alpha beta x_c sum(dy_o x_o s_o^(-beta - 1)). The sum runs over o = c and all elements o that have c as a
 * neighbour. */
MP_INLINE void mp_lrn_backward(const mp_line_normalization *s, int64_t begin)
{
    for (int64_t c = 0; c < s->length; c++) {
        const int64_t at = begin + c * s->stride;
        s->direct[at] = mp_array_load(&s->dy, at) * powf(s->scale[at], -s->beta);
        s->terms[at] = s->direct[at] * mp_array_load(&s->x, at) / s->scale[at];
    }
    for (int64_t c = 0; c < s->length; c++) {
        const int64_t at = begin + c * s->stride;
        double sum = 0;
        for (int64_t o = c < s->after ? 0 : c - s->after; o <= c + s->before && o < s->length; o++)
            sum += (double)s->terms[begin + o * s->stride];
        const double own = (double)(s->alpha * s->beta * mp_array_load(&s->x, at));
        mp_array_store(&s->dx, at, (float)((double)s->direct[at] - 2.0 * own * sum));
    }
}

MP_INLINE void mp_lrn_item(const mp_line_normalization *s, int64_t k)
{
    if (s->is_backward)
        mp_lrn_backward(s, mp_line_begin(s, k));
    else
        mp_lrn_forward(s, mp_line_begin(s, k));
}
