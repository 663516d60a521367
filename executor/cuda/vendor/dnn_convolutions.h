/* dnn_convolutions.h - lists cuDNN's algorithms for the convolution of a node. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/kernel.h"

/* Lists the algorithms of a node that runs a single pass of a convolution. The list is empty for other nodes. */
mp_status mp_cuda_convolution_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err);
