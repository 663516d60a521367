/* boxes_cuda.h - copying, filling and adding boxes of elements (executor/operators/copies/box.h) on the GPU, and bytes that are
 * brought there as parameters of kernels, or searched. All only enqueue. */
#pragma once

#include "executor/operators/copies/box.h"

/* As mp_box_copy; elements of 1, 2, 4 or 8 bytes. */
void mp_cuda_box_copy(const mp_box *box, int size, const void *from, void *to);
/* Every element of the writing side becomes the value in the program's memory. */
void mp_cuda_box_fill(const mp_box *box, int size, const void *value, void *to);
/* to += from over elements of FLOAT or BFLOAT16; no stride of the writing side is 0. */
void mp_cuda_box_add(const mp_box *box, mp_dtype dtype, const void *from, void *to);
/* Whether the box is copied through tiles, because its two sides have different innermost dimensions. */
bool mp_cuda_box_is_transposed(const mp_box *box);

/* All elements of one array to the same indices of another of its shape and type; nothing where both are the same. */
void mp_cuda_array_copy(const mp_array *from, const mp_array *to);
void mp_cuda_array_zero(const mp_array *to);

/* to[0 .. n) = from[0 .. n), bytes that the host knows when a call runs and that are read before this returns: nothing waits,
 * and a captured graph holds them. One launch per 2 KB. */
void mp_cuda_put(const void *from, int64_t n, void *to);

/* Per stretch of MP_CUDA_STRETCH bytes of memory: up to where it has another byte, from its begin; 0: nowhere. */
enum { MP_CUDA_STRETCH = 1 << 20 };
void mp_cuda_last_others(const unsigned char *memory, unsigned char byte, int64_t bytes, int64_t *stretches);
