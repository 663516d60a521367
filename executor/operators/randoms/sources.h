/* sources.h - tensors from attributes, shapes and a few numbers: constants, ranges, windows. For every backend. */
#pragma once

#include "executor/kernel/kernel.h"

typedef struct mp_source_row mp_source_row;

typedef struct mp_source {
    const mp_source_row *row;
    int64_t n; /* elements of the output */
} mp_source;

/* Constant, ConstantOfShape, Shape, Size, Range, EyeLike and windows: an mp_source becomes the call's state; `run` is the
 * backend's. MP_UNSUPPORTED: a type or layout of the output; MP_NOMEM. */
mp_status mp_source_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* Elements [from, from + n) of the output, row-major, in the program's memory. Of the inputs only Range reads the data. */
void mp_source_fill(const mp_source *source, const mp_operands *x, int64_t from, int64_t n);
