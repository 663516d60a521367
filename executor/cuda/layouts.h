/* layouts.h - chooses the layouts of tensors in memory on the GPU. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/backend.h"

/* mp_backend's adapt. In bfloat16 or with TF32, activations are laid out as on the CPU, channels-last around convolutions,
 * and so are weights that only convolutions read. In plain float32 everything is row-major. Batch normalization is fused
 * with what follows it (executor/operators/fusions.h). MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16. */
mp_status mp_cuda_adapt(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err);
