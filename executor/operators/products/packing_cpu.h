/* packing_cpu.h - packed weights: if a convolution is the only reader of its weights, they have the layout that it runs fastest
 * on. Private to executor/cpu/. */
#pragma once

#include "executor/kernel/array.h"

/* Chooses the packed layouts (mp_tensor.stored); the model's pool owns their descriptions. `dtype`: the type that convolutions
 * compute in. MP_NOMEM; failures of oneDNN. */
mp_status mp_cpu_pack_weights(mp_model *model, mp_dtype dtype, mp_error *err);
/* Copies an array to one of another layout; either may be packed (padding becomes zero). Types may differ (FLOAT, BFLOAT16).
 * MP_UNSUPPORTED: a type that cannot be copied. */
mp_status mp_cpu_reorder(const mp_array *from, const mp_array *to, mp_error *err);
