/* triangles_cuda.h - Trilu on the GPU. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/kernel/array.h"

/* The upper or lower triangle of each matrix, from the k-th diagonal on (`there`, if not NULL, says which); zero elsewhere.
 * With `add` it is added (FLOAT, BFLOAT16). Both arrays lie alike, and may be the same. Only enqueues. */
void mp_cuda_triangle(const mp_array *from, const mp_array *to, bool upper, int64_t k, const int64_t *there, bool add);

MP_C_END
