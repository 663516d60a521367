/* elementwise.h - elementwise operators, for every backend. elementwise.def lists the operators and their formulas. A backend
 * provides an engine: the functions that run formulas over arrays. */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/kernel/loops.h"
#include "executor/operators/elementwise/formulas.h"

/* The functions of a backend that run formulas. All arrays have data. On a GPU the functions only enqueue. */
typedef struct mp_engine {
    /* Run a formula over n_in operands, which are broadcast to the shape of `out`. `out` may be the memory of an operand.
     * `floats` computes in float; operands of other types are converted. `whole` computes in int64_t, for integers and
     * booleans; floats are truncated. */
    void (*floats)(mp_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
    void (*whole)(mp_whole_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
    /* Sets to = scale * (sum of `from`), both float, in a fixed order. The sum runs over the dimensions that have size 1 in
     * `to` or are missing at the front of its shape. `add` accumulates into `to`. `workspace` is aligned to 64 and has
     * sum_workspace_bytes bytes. */
    void (*sum_to)(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace);
    int64_t (*sum_workspace_bytes)(const mp_array *from, const mp_array *to);
    mp_status (*end)(mp_error *err); /* called after the last formula of a call; returns the first failure */
} mp_engine;

/* Prepare calls that the engine runs: operators with one operand, with several operands, Where, and FastGelu and BiasGelu. */
mp_status mp_unary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_binary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_where_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_biased_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);

/* True if the formulas, which compute in float or int64_t, can read operands of this type. */
static inline bool mp_elementwise_knows(mp_dtype dtype)
{
    return mp_dtype_is_integer(dtype) ? mp_dtype_bits(dtype) >= 8
                                      : dtype == MP_DTYPE_BOOL || dtype == MP_DTYPE_DOUBLE || mp_is_real(dtype);
}
