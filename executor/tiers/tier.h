/* tier.h - the memory of a tier other than the device: host memory, or an unnamed file in a folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/training.h"

/* Copies to and from a file start at multiples of this number of bytes. A copy may overwrite the bytes between its end and the
 * next multiple. Offsets in a tier have this alignment, so these bytes are unused. */
enum { MP_TIER_ALIGNMENT = MP_DISK_BLOCK_BYTES };

typedef struct mp_tier {
    char title[384]; /* description of the tier in messages, such as "the tier 'disk' in /scratch" */
    int64_t bytes;
    char *memory;             /* address of the tier's host memory; NULL: the tier is a file */
    bool is_lent;             /* true: the memory belongs to the caller */
    int file;                 /* file descriptor */
    bool is_open, is_direct;  /* is_direct: true if the file is accessed without the page cache */
    int64_t memory_alignment; /* for a file: data at memory addresses that are multiples of this number is copied without an
                                 intermediate buffer */
} mp_tier;

/* Allocates a tier of `bytes` bytes, all 0. The caller releases *out with mp_tier_close. `name` is the tier's name in messages.
 *
 * If `folder` is NULL, the tier is host memory in whole pages. Without `locked`, the system provides pages at their first
 * write. With `locked`, it provides them immediately and never swaps them out. If `folder` is set, the tier is an unnamed file,
 * which disappears when the program ends, in whatever way. Its disk space is reserved immediately if the file system supports
 * it.
 *
 * MP_NOMEM: the memory is not available, or cannot be locked. MP_IO: the folder does not exist, the disk is full, ... The
 * message names the tier, the folder and the cause. */
mp_status mp_tier_open(const char *name, const char *folder, int64_t bytes, bool locked, mp_tier *out, mp_error *err);
/* Makes a tier of existing memory. The caller keeps the memory and releases it after mp_tier_close. */
void mp_tier_over(const char *name, char *memory, int64_t bytes, mp_tier *out);
void mp_tier_close(mp_tier *tier); /* Closes the tier and frees its memory or file; does nothing if *tier is zeroed. */
