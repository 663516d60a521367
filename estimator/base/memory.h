/* memory.h - growing arrays, checked arithmetic on sizes, and allocation counters for tests. The public part is
 * memplan/memory.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/memory.h"

/* Gives space for `need` elements of `size` bytes in the block *array of *capacity elements, doubling it as needed; new
 * elements are zeroed. Returns false (and changes nothing) if memory is short. *array NULL and *capacity 0 start an
 * array; release it with mp_free. Amortised O(1) per element. */
bool mp_grow(void *array_pointer, size_t *capacity, size_t need, size_t size);

/* Thread-local storage, in headers that C++ reads too. */
#ifdef __cplusplus
#define MP_THREAD_LOCAL __thread
#else
#define MP_THREAD_LOCAL _Thread_local
#endif

/* For tests: how many more allocations succeed (-1: no limit), and how many blocks are live in this thread. */
extern MP_THREAD_LOCAL long mp_alloc_budget, mp_alloc_live;
/* Counts the blocks that this thread has ever asked for: a test of a loop that must not allocate compares before and after. */
extern MP_THREAD_LOCAL long mp_alloc_count;

/* Set *product = a * b, *sum = a + b for a, b >= 0; return false if that is over INT64_MAX or an argument is negative. */
bool mp_multiply(int64_t a, int64_t b, int64_t *product);
bool mp_add(int64_t a, int64_t b, int64_t *sum);
/* Returns the product of dims[from..to), all >= 0; INT64_MAX if it does not fit. */
int64_t mp_product(const int64_t *dims, int from, int to);
/* Rounds bytes up to a multiple of alignment (>= 1). Returns false on overflow. */
bool mp_round_up(int64_t bytes, int64_t alignment, int64_t *rounded);
