/* memory.h - memory allocation that reports failure, and memory pools whose blocks are freed together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns n * size zeroed bytes. NULL: out of memory, or the product overflows. n = 0 returns a unique pointer. Release with
 * mp_free. */
void *mp_alloc(size_t n, size_t size);
void mp_free(void *p); /* frees a block that mp_alloc returned; NULL is allowed */

/* Owners. A variable declared with an owner macro is released at the end of its scope, on every path, so functions can return
 * early. To transfer ownership, copy the pointer and set the variable to NULL.
 *
 *     // given: size_t n
 *     MP_OWNED int *order = mp_alloc(n, sizeof *order);          // a block: mp_free
 *     MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;            // an object: its header has MP_OWNER(mp_plan_free, mp_plan)
 *     MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};      // the members of a struct that is itself a local variable
 */
#define MP_OWNED __attribute__((cleanup(mp_free_owned)))
#define MP_OWNED_BY(release) __attribute__((cleanup(release##_owned)))
#define MP_CLEARED_BY(clear) __attribute__((cleanup(clear)))
#define MP_OWNER(release, type)                         \
    static inline void release##_owned(type **variable) \
    {                                                   \
        release(*variable);                             \
    }
/* Defines the owner macro for a handle: a pointer or integer type whose value 0 means "no object". */
#define MP_HANDLE_OWNER(release, type)                 \
    static inline void release##_owned(type *variable) \
    {                                                  \
        if (*variable) release(*variable);             \
    }
static inline void mp_free_owned(void *variable)
{
    void *block;
    __builtin_memcpy(&block, variable, sizeof block);
    mp_free(block);
}

/* A memory pool for objects with a common lifetime. The blocks of a pool are zeroed, aligned for any type, and released only
 * by mp_pool_free. A pool remembers failures, so one check covers many allocations: mp_pool_failed is true if a block or the
 * pool itself could not be allocated. */
typedef struct mp_pool mp_pool;
mp_pool *mp_pool_new(void);       /* creates a pool; NULL: memory is exhausted */
void mp_pool_free(mp_pool *pool); /* frees the pool and all its blocks; NULL is allowed */
MP_OWNER(mp_pool_free, mp_pool)
bool mp_pool_failed(const mp_pool *pool); /* true if an allocation from the pool failed, or if the pool is NULL */
void *
mp_pool_alloc(mp_pool *pool, size_t n,
              size_t size); /* returns n * size zeroed bytes of the pool; NULL: out of memory, overflow, or the pool is NULL */
char *mp_pool_text(mp_pool *pool, const char *text, size_t length); /* a NUL-terminated copy of text[0..length) */
char *mp_pool_format(mp_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));
