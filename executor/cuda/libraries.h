/* libraries.h - the GPU's kernels that stand on cuDNN and cublasLt: a table per family, ended by a row without a kind.
 * Private to executor/cuda/. */
#ifndef EXECUTOR_CUDA_LIBRARIES_H
#define EXECUTOR_CUDA_LIBRARIES_H

#include "executor/kernel/kernel.h"

extern const mp_kernel mp_cuda_convolutions[];   /* Conv, ConvTranspose */
extern const mp_kernel mp_cuda_products[];       /* MatMul, FusedMatMul, Gemm */
extern const mp_kernel mp_cuda_dnn_attentions[]; /* ScaledDotProductAttention */

/* mp_backend's kernel. */
const mp_kernel *mp_cuda_kernel(const mp_operator *op);
/* mp_backend's algorithms: of convolutions. */
mp_status mp_cuda_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err);

#endif
