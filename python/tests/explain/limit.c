/* limit.c - a limit on what PyTorch's allocator on a CPU gives out, to be loaded before the C library (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { SLOTS = 1 << 20, FREE = 0, GONE = 1 };

typedef struct {
    uintptr_t address;
    size_t bytes;
} piece;

static piece table[SLOTS]; /* open addressing */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long limit_bytes, live_bytes, most_bytes, failed_at_bytes;

void limit_set(long bytes)
{
    limit_bytes = bytes;
}
long limit_live(void)
{
    return live_bytes;
}
long limit_most(void)
{
    return most_bytes;
}
long limit_failed_at(void)
{
    return failed_at_bytes;
} /* what was given out when an allocation failed first */

static size_t slot_of(uintptr_t address)
{
    return (address >> 6) * 11400714819323198485u % SLOTS;
}

int posix_memalign(void **result, size_t alignment, size_t bytes)
{
    static int (*real)(void **, size_t, size_t);
    if (!real) real = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    pthread_mutex_lock(&lock);
    if (limit_bytes && live_bytes + (long)bytes > limit_bytes) {
        if (!failed_at_bytes) failed_at_bytes = live_bytes;
        pthread_mutex_unlock(&lock);
        return ENOMEM;
    }
    int status = real(result, alignment, bytes);
    if (status == 0 && *result) {
        size_t k = slot_of((uintptr_t)*result);
        while (table[k].address > GONE) k = (k + 1) % SLOTS;
        table[k] = (piece){(uintptr_t)*result, bytes};
        live_bytes += (long)bytes;
        if (live_bytes > most_bytes) most_bytes = live_bytes;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void free(void *pointer)
{
    static void (*real)(void *);
    if (!real) real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    if (pointer && (uintptr_t)pointer % 64 == 0) {
        pthread_mutex_lock(&lock);
        size_t k = slot_of((uintptr_t)pointer);
        while (table[k].address != FREE && table[k].address != (uintptr_t)pointer) k = (k + 1) % SLOTS;
        if (table[k].address == (uintptr_t)pointer) {
            live_bytes -= (long)table[k].bytes;
            table[k].address = GONE;
        }
        pthread_mutex_unlock(&lock);
    }
    real(pointer);
}
