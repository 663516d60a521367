/* transfer.h - moves the bytes of one copy between memory and a tier, piece by piece. */
#pragma once

#include "executor/tiers/tier.h"
#include "memplan/memory.h"

typedef struct mp_copy {
    const mp_tier *tier;
    int64_t offset; /* in the tier; of a file a multiple of MP_TIER_ALIGNMENT */
    char *memory;   /* on the other side: the device's arena, or the memory of another tier */
    int64_t bytes;
    bool is_out;       /* from memory to the tier */
    const char *label; /* of what is copied, in messages; "" if it has none */
} mp_copy;

/* Asked before every piece, with the bytes of the copy that have begun to move before it; false: it is to end. */
typedef bool (*mp_paced)(void *data, int64_t begun_bytes);

/* Of one thread: the buffers of its pieces, and its io_uring, with which it reads or writes several pieces of a file at once;
 * where the kernel has none for us, one after the other with pread and pwrite. */
typedef struct mp_transfer mp_transfer;

/* `plain`: without io_uring. NULL: out of memory. */
mp_transfer *mp_transfer_new(bool plain);
void mp_transfer_free(mp_transfer *transfer); /* NULL is allowed */
MP_OWNER(mp_transfer_free, mp_transfer)
bool mp_transfer_has_ring(const mp_transfer *transfer);

/* Moves the bytes and returns when they are there. Through a buffer go pieces that the disk cannot read or write where they
 * are: at addresses that are no multiples of the tier's memory_alignment, or of a part of a block. MP_IO: the system failed;
 * the sentence names the tier, its folder, the label and the cause. MP_LIMIT: `paced` said so. O(bytes). */
mp_status mp_transfer_run(mp_transfer *transfer, const mp_copy *copy, mp_paced paced, void *data, mp_error *err);
