/* onnx_uses.h - how operators read each tensor, which is evidence for its role. Private to formats/onnx. */
#pragma once

#include "estimator/model/model.h"

/* The ways in which operators read a tensor. If an operator reads only some rows of a weight, ROWS is set in addition to
 * WEIGHT. */
enum {
    MP_ONNX_READ_WEIGHT = 1,
    MP_ONNX_READ_STATISTIC = 2,
    MP_ONNX_READ_SETTING = 4,
    MP_ONNX_READ_OTHER = 8,
    MP_ONNX_READ_COMPARED = 16,
    MP_ONNX_READ_ROWS = 32
};

typedef struct mp_onnx_use {
    unsigned how;         /* all ways in which the tensor is read, as MP_ONNX_READ_* bits */
    int n_reads, n_table; /* n_reads: number of operands that are this tensor. n_table: number of these operands that belong to
                             elementwise operators */
    int n_factor;         /* number of Mul and Div operators that read the tensor */
    int n_scaling;        /* number of times that the tensor scales attention scores before a softmax */
    bool makes_weight;    /* true if the tensor depends on no input of the model and is read as a weight, or if a weight is
                             computed from this tensor alone */
} mp_onnx_use;

/* Determines the uses of all tensors. *out has one entry per tensor; release it with mp_free. MP_NOMEM. O(operands). */
mp_status mp_onnx_uses_find(const mp_model *model, mp_onnx_use **out, mp_error *err);
