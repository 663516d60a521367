/* transfer.h - copies bytes between memory and a tier, piece by piece. */
#pragma once

#include "executor/tiers/tier.h"
#include "memplan/memory.h"

typedef struct mp_copy {
    const mp_tier *tier;
    int64_t offset; /* offset of the copied bytes in the tier; for a file a multiple of MP_TIER_ALIGNMENT */
    /* address of the bytes outside of the tier: in the device's arena, or in another tier's memory */
    char *memory;
    int64_t bytes;
    bool is_out;       /* true: bytes are copied from memory to the tier; false: from the tier to memory */
    const char *label; /* name of the copied tensor, for messages; "": none */
} mp_copy;

/* Called before every piece of a copy; begun_bytes is the sum of the bytes of earlier pieces. Returns false to stop the copy.
 */
typedef bool (*mp_paced)(void *data, int64_t begun_bytes);

/* The state of one copying thread: buffers, and an io_uring that reads or writes several pieces of a file at once. If the
 * kernel provides no io_uring, pieces are copied one after the other with pread and pwrite. */
typedef struct mp_transfer mp_transfer;

/* Creates the state of a copying thread; `plain`: the thread does not use io_uring. NULL: out of memory. */
mp_transfer *mp_transfer_new(bool plain);
void mp_transfer_free(mp_transfer *transfer); /* NULL is allowed */
MP_OWNER(mp_transfer_free, mp_transfer)
bool mp_transfer_has_ring(const mp_transfer *transfer);

/* Copies the bytes and returns when they have arrived. A piece is copied through a buffer if the disk cannot access it
 * directly: its address is not a multiple of the tier's memory_alignment, or it covers only a part of a block. MP_IO: a system
 * call failed; the message names the tier, its folder, the label and the cause. MP_LIMIT: `paced` returned false. O(bytes). */
mp_status mp_transfer_run(mp_transfer *transfer, const mp_copy *copy, mp_paced paced, void *data, mp_error *err);
