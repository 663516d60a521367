/* quantities.c - formats numbers for people. */
#include "cli/messages/quantities.h"

#include <stdio.h>

const char *count_text(int64_t count)
{
    char digits[32], text[48];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)count), at = 0;
    for (int k = 0; k < n; k++) {
        if (k && (n - k) % 3 == 0 && digits[k - 1] != '-') text[at++] = ',';
        text[at++] = digits[k];
    }
    return mp_text("%.*s", at, text);
}

/* Formats a value with three significant digits and a suitable unit of the list. Each unit of the list is 1000 times the
 * previous one. */
static const char *scaled(double value, const char *const *units, int n)
{
    int k = 0;
    for (; k + 1 < n && value >= 999.5; k++) value /= 1000;
    return mp_text("%.*f %s", value == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, units[k]);
}

const char *seconds_text(double seconds)
{
    static const char *const units[] = {"us", "ms", "s"};
    return scaled(seconds * 1e6, units, 3);
}

const char *flops_text(double flops)
{
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
    return scaled(flops, units, 6);
}
