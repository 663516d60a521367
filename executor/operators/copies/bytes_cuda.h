/* bytes_cuda.h - bytes of the device: brought there as parameters of kernels, and searched. All only enqueue. Private to
 * executor/cuda/. */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include <stdint.h>

/* to[0 .. n) = from[0 .. n), bytes that the host knows when a call runs and that are read before this returns: nothing waits,
 * and a captured graph holds them. One launch per 2 KB. */
void mp_cuda_put(const void *from, int64_t n, void *to);

/* Per stretch of MP_CUDA_STRETCH bytes of memory: up to where it has another byte, from its begin; 0: nowhere. */
enum { MP_CUDA_STRETCH = 1 << 20 };
void mp_cuda_last_others(const unsigned char *memory, unsigned char byte, int64_t bytes, int64_t *stretches);

MP_C_END
