/* dnn_convolutions.h - which algorithms cuDNN has for the convolution of a node. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/kernel.h"

/* mp_backend's algorithms; none for other operators. */
mp_status mp_cuda_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
