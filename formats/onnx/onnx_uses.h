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
    unsigned how;         /* ways in which the tensor is read: a set of MP_ONNX_READ_* bits */
    int n_reads, n_table; /* n_reads: number of operands that are this tensor; n_table: how many of them belong to elementwise
                             operators */
    int n_factor;         /* number of operators Mul and Div that read the tensor */
    int n_scaling;        /* number of operands by which attention scores are scaled before a softmax */
    bool makes_weight; /* the tensor depends on no input and is read as a weight, or a weight is computed from this tensor alone
                        */
} mp_onnx_use;

/* Finds the uses of all tensors. *out has one entry per tensor; release it with mp_free. MP_NOMEM. O(operands). */
mp_status mp_onnx_uses_find(const mp_model *model, mp_onnx_use **out, mp_error *err);
