/* layouts.h - chooses the layouts of tensors in memory on the GPU. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/backend.h"

/* Implements mp_backend.adapt. In bfloat16 or with TF32, activations around convolutions are channels-last, as on the CPU.
 * Weights that only convolutions read are channels-last too, and results of matrix products get aligned rows
 * (executor/operators/aligned_rows.h). In plain float32 all tensors are row-major without gaps. Batch normalization is fused
 * with the operators after it (executor/operators/fusions.h). Attention reads packed Q, K and V in place
 * (executor/operators/attention/packed_operands.h). MP_UNSUPPORTED: the type is neither FLOAT nor BFLOAT16.
 */
mp_status mp_cuda_adapt(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err);
