/* sequences.h - OneHot and ReverseSequence on the GPU. All only enqueue. Private to executor/cuda/.
 */
#ifndef EXECUTOR_CUDA_SEQUENCES_H
#define EXECUTOR_CUDA_SEQUENCES_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/kernel/array.h"

/* OneHot: `values`: off and on, where calls run. */
void mp_cuda_one_hot(const mp_array *indices, const mp_array *out, int axis, const void *values);
/* ReverseSequence: the first lengths[b] steps of batch b in reverse. */
void mp_cuda_reverse(const mp_array *from, const mp_array *to, const mp_array *lengths, int batch, int time);

#ifdef __cplusplus
}
#endif

#endif
