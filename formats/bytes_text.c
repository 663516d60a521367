#include "formats/bytes_text.h"

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
