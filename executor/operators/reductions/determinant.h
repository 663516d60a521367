/* determinant.h - a determinant by elimination with partial pivoting, in double, for every backend. */
#pragma once

#include "executor/kernel/body.h"

/* Returns the determinant of an n x n matrix and overwrites the matrix. The matrix is row-major; adjacent elements are `step`
 * doubles apart. O(n^3). */
MP_INLINE double mp_determinant(double *a, int64_t n, int64_t step)
{
    double result = 1;
    for (int64_t c = 0; c < n; c++) {
        int64_t best = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(a[(r * n + c) * step]) > fabs(a[(best * n + c) * step])) best = r;
        if (a[(best * n + c) * step] == 0) return 0;
        for (int64_t k = c; k < n && best != c; k++) {
            double t = a[(c * n + k) * step];
            a[(c * n + k) * step] = a[(best * n + k) * step];
            a[(best * n + k) * step] = t;
        }
        result *= best == c ? a[(c * n + c) * step] : -a[(c * n + c) * step];
        for (int64_t r = c + 1; r < n; r++) {
            double factor = a[(r * n + c) * step] / a[(c * n + c) * step];
            for (int64_t k = c; k < n; k++) a[(r * n + k) * step] -= factor * a[(c * n + k) * step];
        }
    }
    return result;
}

/* The description of a Det of x (..., row, column). `room`: workspace for `slots` matrices, which are processed at the same
 * time; their elements are interleaved. */
typedef struct mp_det {
    mp_array x, y;
    int64_t n, n_matrices, slots; /* n: number of rows of a matrix */
    double *room;
} mp_det;

/* Computes the determinants of matrices slot, slot + slots, ... in the workspace of that slot. */
MP_INLINE void mp_det_item(const mp_det *s, int64_t slot)
{
    const int64_t row = s->x.strides[s->x.rank - 2], column = s->x.strides[s->x.rank - 1];
    for (int64_t m = slot; m < s->n_matrices; m += s->slots) {
        const int64_t from = mp_array_offset(&s->x, 0, s->y.rank, m);
        for (int64_t k = 0; k < s->n * s->n; k++)
            s->room[k * s->slots + slot] = (double)mp_array_load(&s->x, from + k / s->n * row + k % s->n * column);
        mp_array_store(&s->y, mp_array_offset(&s->y, 0, s->y.rank, m), (float)mp_determinant(s->room + slot, s->n, s->slots));
    }
}

/* Sets call->workspace_bytes to the bytes of one slot, the workspace for one matrix. MP_UNSUPPORTED: the type is neither FLOAT
 * nor BFLOAT16. */
mp_status mp_det_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Computes all determinants. As many matrices are processed at the same time as fit in the workspace (slots). */
mp_status mp_det_run(const mp_call *call, const mp_operands *x, mp_body_loop loop, mp_error *err);
