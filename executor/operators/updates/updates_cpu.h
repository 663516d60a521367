/* updates_cpu.h - the CPU's `add`, `update` and `clip` of mp_backend: sums of gradients, updates of parameters, and gradient
 * clipping. Sums and updates work element by element. The result of an update therefore depends neither on the moment at which
 * it runs, nor on the other updates in the same call. Private to executor/cpu/. */
#pragma once

#include "executor/kernel/optimizer.h"
#include "memplan/backend.h"

/* Implement the functions add, update and clip of mp_backend. mp_cpu_add: `dtype` is FLOAT or BFLOAT16. */
void mp_cpu_add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to);
void mp_cpu_update(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors);
int64_t mp_cpu_norm_workspace_bytes(const mp_backend *self, int64_t n_elements);
double mp_cpu_squares(const mp_backend *self, const mp_update *gradients, size_t n, void *workspace);
void mp_cpu_clip(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace,
                 float *factor);
