/* tier.h - the memory of a tier that is not the device's: memory of the program, or a file without a name in a folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/training.h"

/* What is copied to and from a file begins at a multiple of this in it; what lies behind the last byte of a copy, up to the
 * next multiple, may be overwritten. A tier's offsets are laid out with this alignment, so that nothing lies there. */
enum { MP_TIER_ALIGNMENT = MP_DISK_BLOCK_BYTES };

typedef struct mp_tier {
    char title[384]; /* in messages: "the tier 'disk' in /scratch" */
    int64_t bytes;
    char *memory;             /* NULL: a file */
    bool is_lent;             /* the memory is somebody else's */
    int file;                 /* its descriptor */
    bool is_open, is_direct;  /* is_direct: no page cache lies between the file and the disk */
    int64_t memory_alignment; /* of a file: addresses that are multiples of this are copied without a detour */
} mp_tier;

/* Takes `bytes` bytes, all of which are 0. `folder` NULL: of the program's memory, in whole pages; the system gives them as
 * they are first written. `locked`: it gives them at once and never swaps them out. Otherwise in a file that has no name, so
 * that nothing of it is left however the program ends, with its room on the disk taken now where the file system can. The
 * caller releases *out with mp_tier_close. MP_NOMEM: there is no such memory, or it cannot be locked. MP_IO: the folder is not
 * there, the disk has no room, ... Each is one sentence with the tier's name, the folder and the cause. */
mp_status mp_tier_open(const char *name, const char *folder, int64_t bytes, bool locked, mp_tier *out, mp_error *err);
/* Makes a tier of memory that the caller keeps, and releases after mp_tier_close. */
void mp_tier_over(const char *name, char *memory, int64_t bytes, mp_tier *out);
void mp_tier_close(mp_tier *tier); /* does nothing for a zeroed one */
