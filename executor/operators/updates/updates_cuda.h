/* updates_cuda.h - the GPU's `add`, `update` and `clip` of mp_backend: sums of gradients, updates of parameters, and gradient
 * clipping. All functions only enqueue. */
#pragma once

#include "executor/kernel/optimizer.h"
#include "memplan/backend.h"

void mp_cuda_add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to);
void mp_cuda_update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors);
int64_t mp_cuda_norm_workspace_bytes(const mp_backend *self, int64_t n_elements);
void mp_cuda_clip(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace,
                  float *factor);
