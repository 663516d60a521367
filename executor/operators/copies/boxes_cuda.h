/* boxes_cuda.h - copies, fills and adds boxes of elements (executor/operators/copies/box.h) on the GPU. Also copies bytes from
 * the host as kernel parameters, and finds the last changed byte of a block. All functions only enqueue. */
#pragma once

#include "executor/operators/copies/box.h"

/* Copies elements of 1, 2, 4 or 8 bytes, as mp_box_copy does on the CPU. */
void mp_cuda_box_copy(const mp_box *box, int size, const void *from, void *to);
/* Sets every element that the box writes to one value, which is read from host memory. */
void mp_cuda_box_fill(const mp_box *box, int size, const void *value, void *to);
/* Adds the elements of `from` to the elements of `to`, both FLOAT or BFLOAT16. No writing stride of the box is 0. */
void mp_cuda_box_add(const mp_box *box, mp_dtype dtype, const void *from, void *to);
/* True if the box is copied through tiles, because reads and writes have different innermost dimensions. */
bool mp_cuda_box_is_transposed(const mp_box *box);

/* Copies an array to another of the same shape and type, index by index; does nothing if both have the same address. */
void mp_cuda_array_copy(const mp_array *from, const mp_array *to);
void mp_cuda_array_zero(const mp_array *to);

/* Copies n bytes from the host; they are read before the function returns. The bytes are parameters of kernel launches, so
 * there is no wait, and a captured CUDA graph contains the bytes. One launch copies 2 KB. */
void mp_cuda_put(const void *from, int64_t n, void *to);

/* For each stretch of MP_CUDA_STRETCH bytes, writes to stretches[] 1 + the index in the stretch of the last byte that differs
 * from `byte`; 0: no byte differs. */
enum { MP_CUDA_STRETCH = 1 << 20 };
void mp_cuda_last_others(const unsigned char *memory, unsigned char byte, int64_t bytes, int64_t *stretches);
