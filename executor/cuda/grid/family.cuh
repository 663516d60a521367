/* family.cuh - helper functions for the host code of memplan's own GPU kernels: operands, alignment of workspace, lines of
 * arrays. */
#pragma once

#include "executor/cuda/grid/grid.cuh"

extern "C" {
#include "executor/cuda/grid/families.h"
#include "executor/kernel/loops.h"
}

/* Returns `bytes` rounded up to 64, the alignment of every array in a workspace. */
static inline int64_t mp_aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
static inline void *mp_workspace_at(const mp_operands *x, int64_t at)
{
    return (char *)x->workspace + at;
}

static inline bool mp_has_input(const mp_operands *x, int i)
{
    return i < x->n_in && x->in[i].dtype != MP_DTYPE_UNDEFINED;
}

/* An operand of an operator in the form that GPU kernels receive. data NULL: the operand is absent. */
struct mp_operand {
    void *data;
    mp_dtype dtype;
    MP_BODY float load(int64_t at) const { return mp_load_any(data, dtype, at); }
    MP_BODY void store(int64_t at, float value) const { mp_store_any(data, dtype, at, value); }
};
static inline mp_operand mp_operand_of(const mp_array *a)
{
    return mp_operand{a->dtype ? a->data : NULL, a->dtype};
}
static inline mp_operand mp_input(const mp_operands *x, int i)
{
    return mp_has_input(x, i) ? mp_operand_of(&x->in[i]) : mp_operand{NULL, MP_DTYPE_FLOAT};
}
static inline mp_operand mp_input_gradient(const mp_operands *x, int i)
{
    return i < x->n_in ? mp_operand_of(&x->d_in[i]) : mp_operand{NULL, MP_DTYPE_FLOAT};
}
static inline mp_operand mp_output(const mp_operands *x, int i)
{
    return i < x->n_out ? mp_operand_of(&x->out[i]) : mp_operand{NULL, MP_DTYPE_FLOAT};
}

/* ---- offsets of elements, for kernels that process an array line by line. */

struct mp_line_places {
    int n_outer, n_inner;
    int64_t outer[MP_ARRAY_RANK], outer_at[MP_ARRAY_RANK], inner[MP_ARRAY_RANK], inner_at[MP_ARRAY_RANK];

    MP_BODY int64_t find(int64_t line, int64_t element) const
    {
        return mp_strided_offset(n_outer, outer, outer_at, line) + mp_strided_offset(n_inner, inner, inner_at, element);
    }
};

/* Returns the sizes and strides of an array's lines (elements along the inner dimensions) in the form that kernels receive.
 * Contiguous outer dimensions are merged. */
static inline mp_line_places mp_line_places_of(const mp_lines *lines)
{
    mp_line_places p = {};
    for (int d = 0; d < lines->n_outer; d++) {
        if (lines->outer[d] == 1) continue;
        const int last = p.n_outer - 1;
        if (last >= 0 && p.outer_at[last] == lines->outer_at[d] * lines->outer[d]) {
            p.outer[last] *= lines->outer[d];
            p.outer_at[last] = lines->outer_at[d];
        } else {
            p.outer[p.n_outer] = lines->outer[d];
            p.outer_at[p.n_outer++] = lines->outer_at[d];
        }
    }
    p.n_inner = lines->n_inner;
    for (int d = 0; d < lines->n_inner; d++) {
        p.inner[d] = lines->inner[d];
        p.inner_at[d] = lines->inner_at[d];
    }
    return p;
}
