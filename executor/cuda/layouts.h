/* layouts.h - how tensors lie in memory on the GPU. */
#ifndef EXECUTOR_CUDA_LAYOUTS_H
#define EXECUTOR_CUDA_LAYOUTS_H

#include "estimator/model.h"

/* mp_backend's adapt: activations as on the CPU, channels-last around convolutions; weights that only convolutions read lie
 * channels-last too, nothing is packed. MP_UNSUPPORTED: a type that is neither FLOAT nor BFLOAT16. */
mp_status mp_cuda_adapt(mp_model *model, mp_dtype dtype, mp_error *err);

#endif
