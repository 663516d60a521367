/* dnn_attention.h - lists the algorithms of attention. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/kernel.h"

/* Adds the algorithms of a node to *out, the default first: "cuDNN" and "own kernels". With --fast, backward also has "cuDNN,
 * any order". Forward and backward of a node choose independently. Adds nothing if only one of the two computes the node, or if
 * its passes must use the same kernels: with dropout, and with masks that are converted for cuDNN. */
mp_status mp_cuda_attention_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err);
