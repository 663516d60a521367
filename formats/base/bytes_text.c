/* bytes_text.c - bytes in the largest binary unit that suits them. */
#include "formats/base/bytes_text.h"

#include <stdio.h>

const char *mp_bytes_text(int64_t bytes, char *text)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int k = -1;
    for (; k < 5 && value >= 1023.995; k++) value /= 1024;
    if (k < 0)
        snprintf(text, MP_BYTES_TEXT_MAX, "%lld B", (long long)bytes);
    else
        snprintf(text, MP_BYTES_TEXT_MAX, "%.2f %s", value, units[k]);
    return text;
}

const char *mp_arena_text(int64_t arena_bytes, int64_t live_bytes, char *text)
{
    const double over = live_bytes > 0 ? 100.0 * (double)(arena_bytes - live_bytes) / (double)live_bytes : 100;
    if (arena_bytes <= live_bytes)
        snprintf(text, MP_BYTES_TEXT_MAX, "as much as lives at the peak: no fragmentation");
    else
        snprintf(text, MP_BYTES_TEXT_MAX, "%.2f %% over what lives at the peak: fragmentation", over);
    return text;
}
