/* dnn_convolutions.h - lists cuDNN's algorithms for the convolution of a node. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/kernel.h"

/* Implements mp_backend.algorithms. The list is empty for operators other than convolutions. */
mp_status mp_cuda_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
