/* normalize_cuda.cuh - runs the loop nest of normalization.h on the GPU: forward, backward, or statistics only.
 *
 * If rows are contiguous (by_rows), several threads process a row together. Otherwise reductions compute statistics and sums,
 * and all other results are computed element by element in memory order. */
#pragma once

#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/reduce.cuh"
extern "C" {
#include "executor/cuda/device/step_values.h"
#include "executor/operators/normalizations/normalization.h"
}

/* The operands of one call, forward or backward; data NULL: the operand is absent. */
struct mp_normal_data {
    mp_operand x, y, dy, dx, scale, shift, d_scale,
        d_shift;                      /* if x.data is NULL, backward computes the normalized input from y */
    bool add_x, add_scale, add_shift; /* true: backward adds to the gradient */
    float *mean, *rstd;               /* statistics of each row; mean NULL: no mean is subtracted */
};

struct mp_normal {
    mp_normalization form;
    mp_loops loops; /* loops over all elements with three operands: x, the index of the element's row, and scale and shift */
    bool by_rows;
};

/* A dropout that runs in the launch of a normalization. */
struct mp_normal_dropout {
    const mp_cuda_pass *pass; /* NULL: there is no dropout, or it keeps all elements */
    uint32_t op;
    float ratio;
};

/* The neighbours that run in the launch of a normalization. In forward, the normalized input is x = residual + before(branch),
 * and `out` is after(y). In backward, the gradient of y is after(dy), and `out` is before(dx). */
struct mp_normal_chain {
    mp_operand branch, residual; /* branch.data NULL: forward reads x from memory */
    int64_t residual_rows; /* number of rows of the residual, which is repeated for further rows of x; 0: it has all rows */
    mp_operand sum;        /* destination of x in forward; data NULL: x is not written */
    mp_operand out;        /* result of the last dropout; data NULL: no dropout runs last */
    mp_normal_dropout before, after;
};

mp_normal mp_normal_of(const mp_normalization *form);
/* returns the workspace bytes of forward or backward, whichever needs more */
int64_t mp_normal_workspace_bytes(const mp_normal *n);

/* Computes only the statistics mean and rstd. */
void mp_normal_measure(const mp_normal *n, const mp_normal_data *d, void *workspace);
/* Computes mean, rstd and y. */
void mp_normal_forward(const mp_normal *n, const mp_normal_data *d, void *workspace);
void mp_normal_backward(const mp_normal *n, const mp_normal_data *d, void *workspace);

/* Return the normalization of a call of MP_NORMALIZATIONS, and its operands. */
const mp_normal *mp_normal_of_call(const mp_call *call);
mp_normal_data mp_normal_operands(const mp_call *call, const mp_operands *x);

/* Returns 1 / sqrt(x). On the GPU, this is one instruction with an error of up to 2 ulp (units in the last place). */
MP_BODY float mp_reciprocal_root(float x)
{
#ifdef __CUDA_ARCH__
    return rsqrtf(x);
#else
    return 1 / sqrtf(x);
#endif
}
