/* sequences_cuda.h - OneHot and ReverseSequence on the GPU. All only enqueue. Private to executor/cuda/.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/kernel/array.h"

/* OneHot: `values`: off and on, where calls run. */
void mp_cuda_one_hot(const mp_array *indices, const mp_array *out, int axis, const void *values);
/* ReverseSequence: the first lengths[b] steps of batch b in reverse. */
void mp_cuda_reverse(const mp_array *from, const mp_array *to, const mp_array *lengths, int batch, int time);

MP_C_END
