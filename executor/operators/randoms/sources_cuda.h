/* sources_cuda.h - ranges and unit matrices on the GPU. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/kernel/array.h"

/* Element k is start + k * delta, of one element each, where calls run. Any type. Only enqueues. */
void mp_cuda_range(const mp_array *start, const mp_array *delta, const mp_array *out);
/* Ones on the k-th diagonal of a plain matrix, zero elsewhere. */
void mp_cuda_eye(const mp_array *out, int64_t k);

MP_C_END
