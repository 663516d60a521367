/* packing_cpu.h - packed weights: if a convolution is the only reader of its weights, they are stored in the layout in which it
 * runs fastest. Private to executor/cpu/. */
#pragma once

#include "executor/kernel/array.h"

/* Chooses the packed layouts (mp_tensor.stored); the model's pool owns their descriptions. `dtype`: the type in which
 * convolutions compute. MP_NOMEM, and the errors of oneDNN. */
mp_status mp_cpu_pack_weights(mp_model *model, mp_dtype dtype, mp_error *err);
/* Copies an array to another layout; both may be packed (padding becomes zero). Types may differ (FLOAT, BFLOAT16).
 * MP_UNSUPPORTED: the type cannot be copied. */
mp_status mp_cpu_reorder(const mp_array *from, const mp_array *to, mp_error *err);
