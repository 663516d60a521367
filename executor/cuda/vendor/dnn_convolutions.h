/* dnn_convolutions.h - which algorithms cuDNN has for the convolution of a node. Private to executor/cuda/. */
#ifndef EXECUTOR_CUDA_DNN_CONVOLUTIONS_H
#define EXECUTOR_CUDA_DNN_CONVOLUTIONS_H

#include "executor/kernel/kernel.h"

/* mp_backend's algorithms; none for other operators. */
mp_status mp_cuda_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);

#endif
