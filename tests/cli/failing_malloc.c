/* failing_malloc.c - makes allocations fail, loaded before a program's own libraries. It counts all allocations, including
 * those by libraries. FAIL_AT: the number of the failing one. FAIL_FROM: the first of all failing ones. FAIL_EVERY: every
 * multiple of it fails. FAIL_NOT: excludes libraries whose path contains this text. FAIL_COUNT: a file that receives the number
 * of allocations at the end. It calls the real functions by glibc's internal names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_long n_calls;
static long at, from, every;
static const char *spared;

static long number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    at = number("FAIL_AT");
    from = number("FAIL_FROM");
    every = number("FAIL_EVERY");
    spared = getenv("FAIL_NOT");
    atomic_store(&n_calls, 0);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_COUNT");
    const long n = atomic_load(&n_calls);
    at = from = every = 0;
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld\n", n);
    fclose(file);
}

static int fails(const void *caller)
{
    Dl_info info;
    const long n = atomic_fetch_add(&n_calls, 1) + 1;
    if (n != at && !(from && n >= from) && !(every && n % every == 0)) return 0;
    if (spared && *spared && dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, spared)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *p = fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}
