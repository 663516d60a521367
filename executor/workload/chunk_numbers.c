/* chunk_numbers.c - reads and writes the setting row_chunks. */
#include "executor/workload/chunk_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mp_status mp_chunk_numbers_read(const char *text, int n[MP_N_CHUNK_KINDS], mp_error *err)
{
    const bool is_open = !strcmp(text, "auto");
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) n[k] = !is_open;
    if (is_open || !strcmp(text, "off")) return MP_OK;
    for (const char *at = text; at;) {
        char name[16] = "";
        char *end = NULL;
        const size_t length = strcspn(at, "=");
        if (length < sizeof name) memcpy(name, at, length);
        const int kind = mp_chunk_kind_find(name);
        const long value = kind < 0 || at[length] != '=' ? 0 : strtol(at + length + 1, &end, 10);
        MP_ENSURE(value >= 1 && value <= MP_ROW_CHUNKS_MAX && (!*end || *end == ','), err, MP_INVALID,
                  "--row-chunks %s: write auto, off, or a list such as head=8,mlp=4 of head, mlp, rows and attention, with "
                  "numbers from 1 to %d",
                  text, MP_ROW_CHUNKS_MAX);
        n[kind] = (int)value;
        at = *end ? end + 1 : NULL;
    }
    return MP_OK;
}

void mp_chunk_numbers_write(const int n[MP_N_CHUNK_KINDS], char setting[MP_ROW_CHUNKS_TEXT])
{
    int length = 0;
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++)
        if (n[k] > 1)
            length += snprintf(setting + length, MP_ROW_CHUNKS_TEXT - (size_t)length, "%s%s=%d", length ? "," : "",
                               mp_chunk_kind_name((mp_chunk_kind)k), n[k]);
    if (!length) snprintf(setting, MP_ROW_CHUNKS_TEXT, "off");
}

int mp_chunk_numbers_of(const mp_workload *w, mp_chunk_kind kind)
{
    const int n = kind == MP_CHUNK_HEAD ? w->details->loss_chunks.n : w->details->row_regions.kinds[kind].n;
    return n > 1 ? n : 1;
}
