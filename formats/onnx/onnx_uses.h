/* onnx_uses.h - how tensors are read, which is the evidence for their roles. Private to formats/onnx. */
#pragma once

#include "estimator/model/model.h"

/* How a tensor is read. ROWS is set in addition to WEIGHT if only some of its rows are read. */
enum {
    MP_ONNX_READ_WEIGHT = 1,
    MP_ONNX_READ_STATISTIC = 2,
    MP_ONNX_READ_SETTING = 4,
    MP_ONNX_READ_OTHER = 8,
    MP_ONNX_READ_COMPARED = 16,
    MP_ONNX_READ_ROWS = 32
};

typedef struct mp_onnx_use {
    unsigned how;         /* set of MP_ONNX_READ_* bits */
    int n_reads, n_table; /* operands that read it; those among them in elementwise operators */
    int n_factor;         /* operands that multiply or divide by it */
    int n_scaling;        /* operands that scale attention scores by it, before a softmax */
    bool makes_weight;    /* computed without any input, and read as a weight; or a weight is computed from it alone */
} mp_onnx_use;

/* Finds the uses of all tensors. *out has one entry per tensor; release it with mp_free. MP_NOMEM. O(operands). */
mp_status mp_onnx_uses_find(const mp_model *model, mp_onnx_use **out, mp_error *err);
