/* own_device.c - profiles of devices, changed as --device says. */
#include "cli/options/own_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/messages/quantities.h"
#include "executor/kernel/backend.h"

/* "fp16=60", `length` bytes of it, into the profile. */
static bool read_change(mp_device *d, const char *text, size_t length)
{
    const struct {
        const char *key;
        double *field, unit;
    } numbers[] = {{"fp32=", &d->fp32_flops, 1e12},           {"tf32=", &d->tf32_flops, 1e12},
                   {"fp16=", &d->fp16_flops, 1e12},           {"bf16=", &d->bf16_flops, 1e12},
                   {"bandwidth=", &d->bytes_per_second, 1e9}, {"launch=", &d->launch_seconds, 1e-6}};
    char word[64], *end;
    if (length >= sizeof word) return false;
    memcpy(word, text, length);
    word[length] = 0;
    if (!strncmp(word, "memory=", 7)) {
        budget b;
        const char *why;
        if (!budget_parse(word + 7, &b, &why) || b.kind != BUDGET_BYTES || b.bytes < 1) return false;
        d->memory_bytes = b.bytes;
        return true;
    }
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        const size_t n = strlen(numbers[k].key);
        if (strncmp(word, numbers[k].key, n)) continue;
        const double value = strtod(word + n, &end);
        if (end == word + n || *end || !isfinite(value) || value <= 0) return false;
        *numbers[k].field = value * numbers[k].unit;
        return true;
    }
    return false;
}

bool device_read(const char *text, own_device *out)
{
    const char *comma = strchr(text, ',');
    char base[64];
    const size_t n = comma ? (size_t)(comma - text) : strlen(text);
    if (n >= sizeof base) return false;
    memcpy(base, text, n);
    base[n] = 0;
    const mp_device *row = mp_device_find(base);
    if (!row || (comma && mp_backend_is_name(row->name))) return false;
    *out = (own_device){.profile = *row};
    if (!comma) return true;
    for (const char *at = comma; at;) {
        const char *next = strchr(at + 1, ',');
        if (!read_change(&out->profile, at + 1, next ? (size_t)(next - at - 1) : strlen(at + 1))) return false;
        at = next;
    }
    snprintf(out->title, sizeof out->title, "%s, changed: %s", row->title, comma + 1);
    out->profile.name = text;
    out->profile.title = out->title;
    return true;
}

bool device_is_own(const char *text)
{
    own_device own;
    return strchr(text, ',') && device_read(text, &own);
}
