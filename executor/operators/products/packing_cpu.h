/* packing_cpu.h - packed weights. If a convolution is the only reader of its weights, the weights are stored in oneDNN's
 * blocked layout in which the convolution runs fastest. Private to executor/cpu/. */
#pragma once

#include "executor/kernel/array.h"

/* Chooses the packed layouts of a model's weights (mp_tensor.stored). The model's pool owns the descriptions of the layouts.
 * `dtype`: the type in which convolutions compute. MP_NOMEM, and the errors of oneDNN. */
mp_status mp_cpu_pack_weights(mp_model *model, mp_dtype dtype, mp_error *err);
/* Copies an array to another layout; both may be packed (padding becomes zero). Types may differ (FLOAT, BFLOAT16).
 * MP_UNSUPPORTED: the type cannot be copied. */
mp_status mp_cpu_reorder(const mp_array *from, const mp_array *to, mp_error *err);
