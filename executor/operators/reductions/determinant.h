/* determinant.h - a determinant by elimination with partial pivoting, in double, for every backend. */
#pragma once

#include <math.h>

#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* Of a matrix of n x n elements, row-major, `step` apart, which it overwrites. O(n^3). */
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

/* Checks Det; the workspace is that of one matrix, and `run` the backend's. MP_UNSUPPORTED: a type that is neither FLOAT nor
 * BFLOAT16. */
static inline mp_status mp_determinant_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *in = &x->in[0];
    if (!mp_is_real(in->dtype)) return MP_NO_KERNEL(x, err, "its type");
    call->workspace_bytes = in->dims[in->rank - 1] * in->dims[in->rank - 1] * (int64_t)sizeof(double);
    return MP_OK;
}
