/* memory.h - growing arrays, checked arithmetic on sizes, and allocation counters for tests. The public part is
 * memplan/memory.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/memory.h"

/* Grows the block *array of *capacity elements to at least `need` elements of `size` bytes by doubling. New elements are
 * zeroed. Returns false (without changes) if memory is short. Start with *array NULL and *capacity 0; release the array with
 * mp_free. Amortised O(1) per element. */
bool mp_grow(void *array_pointer, size_t *capacity, size_t need, size_t size);

/* Thread-local storage, for headers that are also compiled as C++. */
#ifdef __cplusplus
#define MP_THREAD_LOCAL __thread
#else
#define MP_THREAD_LOCAL _Thread_local
#endif

/* For tests: the number of further allocations that succeed (-1: no limit), and the number of live blocks of this thread. */
extern MP_THREAD_LOCAL long mp_alloc_budget, mp_alloc_live;
/* The number of allocations of this thread so far. A test compares it before and after a loop that must not allocate. */
extern MP_THREAD_LOCAL long mp_alloc_count;

/* Set *product = a * b, *sum = a + b for a, b >= 0. Return false if the result exceeds INT64_MAX or an argument is negative. */
bool mp_multiply(int64_t a, int64_t b, int64_t *product);
bool mp_add(int64_t a, int64_t b, int64_t *sum);
/* Returns the product of dims[from..to), all >= 0; INT64_MAX on overflow. */
int64_t mp_product(const int64_t *dims, int from, int to);
/* Rounds bytes up to a multiple of alignment (>= 1). Returns false on overflow. */
bool mp_round_up(int64_t bytes, int64_t alignment, int64_t *rounded);
