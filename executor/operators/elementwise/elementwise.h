/* elementwise.h - operators that work element by element, for every backend: what they compute is in formulas.def, unaries.def
 * and binaries.def; how a backend runs a formula over arrays is an engine.
 */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/kernel/loops.h"
#include "executor/operators/elementwise/formulas.h"

/* Arrays have their data; of what runs concurrently nothing returns before its work is enqueued. */
typedef struct mp_engine {
    /* A formula over n_in operands that broadcast to the shape of `out`, which may lie where one of them does. Floats: FLOAT
     * and BFLOAT16, other types are converted. Whole: integers and booleans, floats are truncated. */
    void (*floats)(mp_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
    void (*whole)(mp_whole_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
    /* to = scale * (from summed over the dimensions in which `to` has size 1 or that it lacks in front), both float, in a fixed
     * order; with `add`, added to what is there. The workspace is aligned to 64 and of as many bytes as it says. */
    void (*sum_to)(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace);
    int64_t (*sum_workspace_bytes)(const mp_array *from, const mp_array *to);
    mp_status (*end)(mp_error *err); /* after the last of a call's run: what has failed */
} mp_engine;

/* Each an mp_prepare with the engine that is to run it: operators of unaries.def, of binaries.def, Where; FastGelu and
 * BiasGelu. */
mp_status mp_unary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_binary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_where_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_biased_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);

/* Whether a type can be an operand of a formula. */
static inline bool mp_elementwise_knows(mp_dtype dtype)
{
    return mp_dtype_is_integer(dtype) ? mp_dtype_bits(dtype) >= 8
                                      : dtype == MP_DTYPE_BOOL || dtype == MP_DTYPE_DOUBLE || mp_is_real(dtype);
}
