/* caching_allocator.h - simulates PyTorch's caching allocator for CUDA, for one stream. The result is the memory that the
 * allocator reserves for a sequence of requests.
 *
 * Sizes are rounded up to multiples of 512 bytes. Requests up to 1 MiB use a pool with segments of 2 MiB; others use a pool of
 * large segments. A free block that is larger than needed is split, and free neighbours are merged. Cached memory returns to
 * the device only if the device is full. With expandable segments, a pool extends its address range by pages as needed.
 *
 *     // given: mp_error *err
 *     const mp_memory_request requests[] = {{0, 3 << 20}, {1, 5 << 20}, {0, 0}, {1, 0}}; // two blocks, freed afterwards
 *     const mp_allocator_settings settings = mp_allocator_defaults();
 *     mp_allocator_use use;
 *     MP_CHECK(mp_allocator_replay(&settings, requests, 4, NULL, &use, err));
 *     printf("%lld bytes reserved\n", (long long)use.reserved_bytes); */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Settings of PYTORCH_CUDA_ALLOC_CONF, and the memory of the device. Sizes are in bytes. */
typedef struct mp_allocator_settings {
    int64_t limit; /* device memory for the allocator */
    int64_t max_split;
    int64_t max_rounding; /* largest number of bytes by which a used block above max_split may exceed the request */
    int64_t large_segment;
    int64_t divisions;  /* number of sizes between two powers of two to which requests are rounded; 0: no such rounding */
    int64_t base;       /* address of the first segment */
    int64_t expandable; /* 1: expandable segments; 0: none */
} mp_allocator_settings;

/* Returns the settings of PyTorch without environment variables, on a device with unlimited memory. */
mp_allocator_settings mp_allocator_defaults(void);

/* A request. bytes > 0: allocates a block and names it `number`, which must be free. bytes 0: frees the block of this number;
 * no effect if there is none. Numbers are at least 0 and below the number of requests. */
typedef struct mp_memory_request {
    int64_t number, bytes;
} mp_memory_request;

/* Memory that the allocator obtains from the device in one step. */
typedef struct mp_allocator_growth {
    int64_t request; /* index of the request that needed the memory */
    int64_t address, bytes;
    int64_t is_small; /* 1: for the pool of small requests */
} mp_allocator_growth;

/* The addresses of all blocks, for a picture of the memory. The caller owns all arrays. */
typedef struct mp_allocator_history {
    int64_t *addresses, *sizes;     /* per request: the block that was allocated or freed; size 0: none */
    mp_allocator_growth *growths;   /* memory obtained from the device, in order */
    size_t n_growths, most_growths; /* `most_growths`: capacity of `growths`. `n_growths` also counts growths beyond it */
} mp_allocator_history;

typedef struct mp_allocator_use {
    int64_t tensors_bytes, reserved_bytes; /* peaks of allocated and of reserved memory */
    int64_t refused;                       /* index of the first request above the limit; -1: none. No later request runs */
    int64_t refused_bytes, held_bytes; /* size of the refused block, and memory reserved at that moment; 0: none was refused */
} mp_allocator_use;

/* Simulates the requests in order. `history` may be NULL. MP_INVALID: a negative size, a number out of range, or an allocation
 * for a number that has a block. MP_NOMEM. Deterministic. */
mp_status mp_allocator_replay(const mp_allocator_settings *settings, const mp_memory_request *requests, size_t n,
                              mp_allocator_history *history, mp_allocator_use *out, mp_error *err);
