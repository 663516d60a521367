/* memory.h - growing arrays, checked arithmetic on sizes, and allocation counters for tests. memplan/memory.h is the public
 * part. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/memory.h"

/* Grows the array *array of *capacity elements to at least `need` elements of `size` bytes, by doubling its capacity. New
 * elements are zeroed. If memory is short, returns false and changes nothing. Start with *array NULL and *capacity 0;
 * release the array with mp_free. Amortised O(1) per element. */
bool mp_grow(void *array_pointer, size_t *capacity, size_t need, size_t size);

/* A thread-local variable, for headers that are also compiled as C++. */
#ifdef __cplusplus
#define MP_THREAD_LOCAL __thread
#else
#define MP_THREAD_LOCAL _Thread_local
#endif

/* For tests. Set the number of further allocations that succeed (-1: no limit). Return the number of blocks of this thread
 * that are not yet freed. */
extern MP_THREAD_LOCAL long mp_alloc_budget, mp_alloc_live;
/* The number of allocations of this thread so far. A test compares it before and after a loop that must not allocate. */
extern MP_THREAD_LOCAL long mp_alloc_count;

/* Set *product = a * b or *sum = a + b, for a, b >= 0. Return false if the result exceeds INT64_MAX or an argument is
 * negative. */
bool mp_multiply(int64_t a, int64_t b, int64_t *product);
bool mp_add(int64_t a, int64_t b, int64_t *sum);
/* Returns the product of dims[from..to), all >= 0; INT64_MAX on overflow. */
int64_t mp_product(const int64_t *dims, int from, int to);
/* Rounds bytes up to a multiple of alignment (>= 1). Returns false on overflow. */
bool mp_round_up(int64_t bytes, int64_t alignment, int64_t *rounded);
