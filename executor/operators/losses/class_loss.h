/* class_loss.h - what a loss over classes does, read from its operands when a call is prepared, for every backend. */
#pragma once

#include "executor/kernel/lines.h"

typedef enum mp_class_loss_reduction { MP_CLASS_LOSS_MEAN, MP_CLASS_LOSS_SUM, MP_CLASS_LOSS_NONE } mp_class_loss_reduction;

typedef struct mp_class_loss {
    mp_lines lines; /* along the classes; line k is position k of the targets, counted row-major */
    mp_class_loss_reduction reduction;
    bool softmax; /* the log-probabilities are computed here; extra 0 is, of each line, the logarithm of its sum of e^score */
    bool ignores; /* some target counts nothing */
    int64_t ignored;
    double smoothing; /* share of a position's loss that the mean over all classes has instead of its target (softmax only) */
} mp_class_loss;

/* MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16, or a loss that is not row-major. */
mp_status mp_class_loss_read(const mp_operands *x, mp_class_loss *out, mp_error *err);
