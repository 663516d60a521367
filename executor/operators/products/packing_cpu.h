/* packing_cpu.h - packed weights: each weight that only convolutions read lies in the layout that they run fastest on. Private
 * to executor/cpu/. */
#pragma once

#include "executor/kernel/array.h"

/* Chooses the packed layouts (mp_tensor.stored), whose descriptions are in the model's pool. `dtype`: of the
 * computation. MP_NOMEM, and oneDNN's failures. */
mp_status mp_cpu_pack_weights(mp_model *model, mp_dtype dtype, mp_error *err);
/* Copies between a plain array and one of any layout, packed ones included (elements that only pad are zeroed). Types may
 * differ (float32, bfloat16). MP_UNSUPPORTED: a type that cannot be copied. */
mp_status mp_cpu_reorder(const mp_array *from, const mp_array *to, mp_error *err);
