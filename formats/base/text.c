/* text.c - functions for texts: a ring buffer of short texts, bytes in the largest suitable binary unit, names without
 * exporters' additions, growing texts. */
#include "formats/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/base/module_name.h"

/* Returns the buffer for the next short text. Buffers are reused in a ring: the text that was created MP_TEXTS calls ago
 * becomes invalid. */
static char *next_text(void)
{
    static _Thread_local char texts[MP_TEXTS][MP_TEXT_MAX];
    static _Thread_local unsigned n;
    return texts[n++ % MP_TEXTS];
}

const char *mp_text(const char *format, ...)
{
    char *text = next_text();
    va_list list;
    va_start(list, format);
    vsnprintf(text, MP_TEXT_MAX, format, list);
    va_end(list);
    return text;
}

const char *mp_bytes_text(int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int k = -1;
    for (; k < 5 && value >= 1023.995; k++) value /= 1024;
    return k < 0 ? mp_text("%lld B", (long long)bytes) : mp_text("%.2f %s", value, units[k]);
}

const char *mp_extra_text(double value, double base)
{
    const double percent = base > 0 ? (value - base) / base * 100 : INFINITY, size = fabs(percent);
    if (value == base) return "0 %";
    return size < 0.05 && size >= 0.0005 ? mp_text("%+.1g %%", percent) : mp_text("%+.1f %%", percent);
}

const char *mp_arena_text(int64_t arena_bytes, int64_t live_bytes)
{
    const double over = live_bytes > 0 ? 100.0 * (double)(arena_bytes - live_bytes) / (double)live_bytes : 100;
    if (arena_bytes <= live_bytes) return "as much as lives at the peak: no fragmentation";
    return mp_text("%.2f %% over what lives at the peak: fragmentation", over);
}

const char *mp_short_name(const char *name)
{
    static const char first_output[] = "_output_0";
    const size_t suffix = sizeof first_output - 1, size = MP_TEXT_MAX;
    char *text = next_text();
    size_t n = 0;
    text[0] = '\0';
    while (*name && n + 1 < size) {
        size_t blanks = strspn(name, " ");
        if (blanks > size - 1 - n) blanks = size - 1 - n;
        memcpy(text + n, name, blanks);
        text[n += blanks] = '\0';
        name += blanks;
        size_t word = strcspn(name, " ");
        const size_t end = word;
        if (word > suffix && !memcmp(name + word - suffix, first_output, suffix)) word -= suffix;
        mp_module_text(name, word, text + n, size - n);
        n += strlen(text + n);
        name += end;
    }
    return text;
}

enum { PIECE_MAX = 512 };

void mp_text_builder_free(mp_text_builder *out)
{
    mp_free(out->text);
}

void mp_text_put_bytes(mp_text_builder *out, const char *bytes, size_t n)
{
    out->failed |= n > SIZE_MAX / 2 - out->length || !mp_grow(&out->text, &out->capacity, out->length + n + 1, 1);
    if (out->failed) return;
    memcpy(out->text + out->length, bytes, n);
    out->text[out->length += n] = '\0';
}

void mp_text_put(mp_text_builder *out, const char *text)
{
    mp_text_put_bytes(out, text, strlen(text));
}

void mp_text_format(mp_text_builder *out, const char *format, ...)
{
    char piece[PIECE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(piece, sizeof piece, format, list);
    va_end(list);
    mp_text_put(out, piece);
}
