/* tier.c - opens the memory of a tier. */
#define _GNU_SOURCE
#include "executor/tiers/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/base/nameless.h"

/* Allocates host memory for a tier. Uses mlock2 to lock it, because sanitizers replace mlock by an empty function. */
static mp_status take_memory(mp_tier *t, bool locked, mp_error *err)
{
    void *memory = mmap(NULL, (size_t)t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MP_ENSURE(memory != MAP_FAILED, err, MP_NOMEM, "there is not enough memory for the %lld bytes of %s", (long long)t->bytes,
              t->title);
    t->memory = memory;
    MP_ENSURE(!locked || mlock2(memory, (size_t)t->bytes, 0) == 0, err, MP_NOMEM,
              "the %lld bytes of memory of %s cannot be locked: %s", (long long)t->bytes, t->title, strerrordesc_np(errno));
    return MP_OK;
}

/* Opens the file for direct I/O, if the file system supports it and its block size divides MP_TIER_ALIGNMENT. */
static int open_file(mp_tier *t, const char *folder)
{
    struct statx info = {0};
    int file = mp_nameless_open(folder, O_DIRECT);
    t->is_direct = file >= 0;
    t->memory_alignment = MP_TIER_ALIGNMENT;
    if (t->is_direct && statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 && (info.stx_mask & STATX_DIOALIGN)) {
        t->is_direct = info.stx_dio_offset_align && MP_TIER_ALIGNMENT % info.stx_dio_offset_align == 0;
        if (t->is_direct) t->memory_alignment = info.stx_dio_mem_align;
        if (!t->is_direct) close(file);
    } else if (!t->is_direct && errno != EINVAL) {
        return -1;
    }
    if (!t->is_direct) t->memory_alignment = 1;
    return t->is_direct ? file : mp_nameless_open(folder, 0);
}

static mp_status take_file(mp_tier *t, const char *folder, mp_error *err)
{
    int64_t whole;
    MP_ENSURE(mp_round_up(t->bytes, MP_TIER_ALIGNMENT, &whole), err, MP_INVALID, "%lld bytes are too many for %s",
              (long long)t->bytes, t->title);
    t->file = open_file(t, folder);
    MP_ENSURE(t->file >= 0, err, MP_IO, "cannot create a file for %s: %s", t->title, strerrordesc_np(errno));
    MP_ENSURE(mp_nameless_make_room(t->file, whole), err, MP_IO, "cannot reserve %lld bytes for %s: %s", (long long)whole,
              t->title, strerrordesc_np(errno));
    return MP_OK;
}

static mp_status take(mp_tier *t, const char *folder, bool locked, mp_error *err)
{
    if (!t->bytes) return MP_OK;
    return folder ? take_file(t, folder, err) : take_memory(t, locked, err);
}

mp_status mp_tier_open(const char *name, const char *folder, int64_t bytes, bool locked, mp_tier *out, mp_error *err)
{
    mp_tier t = {.bytes = bytes, .file = -1, .is_open = true};
    snprintf(t.title, sizeof t.title, "the tier '%.60s'%s%.300s", name, folder ? " in " : "", folder ? folder : "");
    const mp_status st = take(&t, folder, locked, err);
    if (st == MP_OK)
        *out = t;
    else
        mp_tier_close(&t);
    return st;
}

void mp_tier_over(const char *name, char *memory, int64_t bytes, mp_tier *out)
{
    *out = (mp_tier){.bytes = bytes, .memory = memory, .is_lent = true, .file = -1, .is_open = true};
    snprintf(out->title, sizeof out->title, "the tier '%.60s'", name);
}

void mp_tier_close(mp_tier *t)
{
    if (!t->is_open) return;
    if (t->memory && !t->is_lent) munmap(t->memory, (size_t)t->bytes);
    if (t->file >= 0) close(t->file);
    *t = (mp_tier){0};
}
