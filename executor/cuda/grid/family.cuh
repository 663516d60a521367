/* family.cuh - what the families of own kernels have in common on the host. */
#pragma once

#include "executor/cuda/grid/grid.cuh"

extern "C" {
#include "executor/cuda/grid/families.h"
}

/* Where the next part of a workspace begins. */
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

/* One operand as kernels get it; data NULL: there is none. */
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
