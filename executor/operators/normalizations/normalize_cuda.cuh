/* normalize_cuda.cuh - kernels of normalization.h's loop nest: forward, backward, statistics alone.
 *
 * Rows that lie side by side in memory are worked on each by the threads of a row. In all other cases statistics and sums come
 * from reductions over the rows, and the rest is element by element in the order of memory.
 */
#pragma once

#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/reduce.cuh"
extern "C" {
#include "executor/operators/normalizations/normalization.h"
}

/* What a pass works on; data NULL where it is not there. */
struct mp_normal_data {
    mp_operand x, y, dy, dx, scale, shift, d_scale, d_shift; /* backward: y in place of x starts from the output */
    bool add_scale, add_shift;
    float *mean, *rstd; /* per row; mean NULL: nothing is subtracted */
};

struct mp_normal {
    mp_normalization form;
    mp_loops loops; /* operand 0: x, 1: the row's number, 2: scale and shift */
    bool by_rows;
    int64_t sums_at; /* in the workspace: two floats per row, behind the stretches of reductions */
};

mp_normal mp_normal_of(const mp_normalization *form);
int64_t mp_normal_workspace_bytes(const mp_normal *n); /* of any pass */

/* Fills mean and rstd. */
void mp_normal_measure(const mp_normal *n, const mp_normal_data *d, void *workspace);
/* The same, and y. */
void mp_normal_forward(const mp_normal *n, const mp_normal_data *d, void *workspace);
void mp_normal_backward(const mp_normal *n, const mp_normal_data *d, void *workspace);

/* 1 / sqrt(x); a GPU does it in one instruction, to 2 units in the last place. */
MP_BODY float mp_reciprocal_root(float x)
{
#ifdef __CUDA_ARCH__
    return rsqrtf(x);
#else
    return 1 / sqrtf(x);
#endif
}
