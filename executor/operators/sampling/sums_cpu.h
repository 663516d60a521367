/* sums_cpu.h - where the gradient of input 0 is summed up in float, plain, before it is rounded. */
#pragma once

#include "executor/kernel/kernel.h"

static inline bool mp_cpu_sums_apart(const mp_operands *x)
{
    return mp_operands_wants(x, 0) && x->d_in[0].dtype == MP_DTYPE_BFLOAT16;
}
/* Returns the sums, which lie at the beginning of the workspace; NULL if the gradient is a FLOAT and is summed up in place. */
static inline float *mp_cpu_sums(const mp_operands *x)
{
    return mp_cpu_sums_apart(x) ? (float *)x->workspace : NULL;
}
static inline int64_t mp_cpu_sums_bytes(const mp_operands *x)
{
    return mp_cpu_sums_apart(x) ? mp_array_elements(&x->d_in[0]) * (int64_t)sizeof(float) : 0;
}
