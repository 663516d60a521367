/* memory.h - allocation that can fail, and pools that are freed at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* n * size zeroed bytes, or NULL when memory is short or the product overflows. n = 0 gives a unique pointer. Release with
 * mp_free. */
void *mp_alloc(size_t n, size_t size);
void mp_free(void *p); /* NULL is fine */

/* Objects that live and die together. Blocks from a pool are zeroed, aligned for any type, and released by mp_pool_free only. A
 * pool remembers a failure, so that many blocks need one check: mp_pool_failed is true if one of them, or the pool itself,
 * could not be had. */
typedef struct mp_pool mp_pool;
mp_pool *mp_pool_new(void);                                         /* NULL: out of memory */
void mp_pool_free(mp_pool *pool);                                   /* NULL is fine */
bool mp_pool_failed(const mp_pool *pool);                           /* true for NULL, too */
void *mp_pool_alloc(mp_pool *pool, size_t n, size_t size);          /* NULL: out of memory or overflow, or no pool */
char *mp_pool_text(mp_pool *pool, const char *text, size_t length); /* a NUL-terminated copy of text[0..length) */
char *mp_pool_format(mp_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));
