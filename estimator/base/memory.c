/* memory.c - allocation by calloc, with counters for tests; memory pools as lists of chunks; checked arithmetic. */
#include "estimator/base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local long mp_alloc_budget = -1, mp_alloc_live, mp_alloc_count;

static bool allowed(void)
{
    if (mp_alloc_budget == 0) return false;
    if (mp_alloc_budget > 0) mp_alloc_budget--;
    return true;
}

void *mp_alloc(size_t n, size_t size)
{
    if (!allowed()) return NULL;
    void *p = calloc(n ? n : 1, size ? size : 1);
    mp_alloc_count++;
    if (p) mp_alloc_live++;
    return p;
}

void mp_free(void *p)
{
    if (!p) return;
    mp_alloc_live--;
    free(p);
}

bool mp_grow(void *array_pointer, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) return true;
    size_t grown_to = *capacity ? *capacity : 8;
    while (grown_to < need) {
        if (grown_to > SIZE_MAX / 2) return false;
        grown_to *= 2;
    }
    void *old, *grown = mp_alloc(grown_to, size);
    if (!grown) return false;
    memcpy(&old, array_pointer, sizeof old);
    if (old) memcpy(grown, old, *capacity * size);
    mp_free(old);
    memcpy(array_pointer, &grown, sizeof grown);
    *capacity = grown_to;
    return true;
}

/* A pool is a list of large memory chunks. Blocks are allocated from the newest chunk, from its front to its end. */
struct chunk {
    struct chunk *next;
    size_t used, size;
    max_align_t bytes[];
};
struct mp_pool {
    struct chunk *newest;
    bool failed;
};

enum { CHUNK_BYTES = 64 * 1024 };

mp_pool *mp_pool_new(void)
{
    return mp_alloc(1, sizeof(mp_pool));
}

void mp_pool_free(mp_pool *pool)
{
    if (!pool) return;
    while (pool->newest) {
        struct chunk *next = pool->newest->next;
        mp_free(pool->newest);
        pool->newest = next;
    }
    mp_free(pool);
}

bool mp_pool_failed(const mp_pool *pool)
{
    return !pool || pool->failed;
}

static void *no_block(mp_pool *pool)
{
    pool->failed = true;
    return NULL;
}

void *mp_pool_alloc(mp_pool *pool, size_t n, size_t size)
{
    const size_t unit = sizeof(max_align_t);
    if (!pool) return NULL;
    if (size && n > (SIZE_MAX / 2) / size) return no_block(pool);
    size_t bytes = (n * size + unit - 1) / unit * unit;
    if (!bytes) bytes = unit;
    if (!pool->newest || pool->newest->size - pool->newest->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct chunk *c = mp_alloc(1, sizeof *c + size);
        if (!c) return no_block(pool);
        c->size = size;
        c->next = pool->newest;
        pool->newest = c;
    }
    void *p = (char *)pool->newest->bytes + pool->newest->used;
    pool->newest->used += bytes;
    return p;
}

char *mp_pool_text(mp_pool *pool, const char *text, size_t length)
{
    char *copy = length < SIZE_MAX ? mp_pool_alloc(pool, length + 1, 1) : NULL;
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

char *mp_pool_format(mp_pool *pool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : mp_pool_alloc(pool, (size_t)length + 1, 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

bool mp_multiply(int64_t a, int64_t b, int64_t *product)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, product);
}

bool mp_add(int64_t a, int64_t b, int64_t *sum)
{
    return a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, sum);
}

int64_t mp_product(const int64_t *dims, int from, int to)
{
    int64_t product = 1;
    for (int k = from; k < to; k++)
        if (!dims[k]) return 0;
    for (int k = from; k < to; k++)
        if (!mp_multiply(product, dims[k], &product)) return INT64_MAX;
    return product;
}

bool mp_round_up(int64_t bytes, int64_t alignment, int64_t *rounded)
{
    if (!mp_add(bytes, alignment - 1, rounded)) return false;
    *rounded -= *rounded % alignment;
    return true;
}
