/* dropout.h - what a Dropout does, read from its operands when a call is prepared, for every backend. */
#pragma once

#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* Element k, counted in the order of memory, is dropped where its uniform number (philox.h) is below the ratio. */
typedef struct mp_dropout {
    float ratio;
    bool drops; /* false: it copies */
    int64_t n;  /* elements */
} mp_dropout;

/* MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16, operands of two layouts, or a ratio that is computed. */
mp_status mp_dropout_read(const mp_operands *x, mp_dropout *out, mp_error *err);
/* The same as the call's state, whose `run` is the backend's. */
mp_status mp_dropout_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* What is kept grows by this. */
MP_INLINE float mp_dropout_factor(float ratio)
{
    return ratio < 1 ? 1 / (1 - ratio) : 0;
}
