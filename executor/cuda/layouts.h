/* layouts.h - how tensors lie in memory on the GPU. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/backend.h"

/* mp_backend's adapt. In bfloat16 or with TF32, activations lie as on the CPU, channels-last around convolutions, and so do
 * weights that only convolutions read. In plain float32 everything is row-major. Batch normalization takes in what follows it
 * (executor/operators/fusions.h). MP_UNSUPPORTED: a type that is neither FLOAT
 * nor BFLOAT16. */
mp_status mp_cuda_adapt(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err);
