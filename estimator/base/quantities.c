/* quantities.c - parses numbers with units strictly. */
#include "estimator/base/quantities.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool mp_count_parse(const char *text, int64_t *count)
{
    if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno) return false;
    *count = value;
    return true;
}

bool mp_number_parse(const char *text, const char **end, double *value, int64_t *exact)
{
    size_t digits = strspn(text, "0123456789"), n = digits;
    *exact = -1;
    if (text[n] == '.') n += 1 + strspn(text + n + 1, "0123456789");
    if (!n || (n == 1 && text[0] == '.')) return false;
    size_t mantissa = n;
    if (text[n] == 'e' || text[n] == 'E') {
        size_t sign = text[n + 1] == '+', exponent = strspn(text + n + 1 + sign, "0123456789");
        if (exponent) n += 1 + sign + exponent;
    }
    char copy[64];
    if (n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    *value = strtod(copy, NULL);
    if (digits == n && mantissa == n && !mp_count_parse(copy, exact)) return false;
    *end = text + n;
    return isfinite(*value);
}

bool mp_bytes_parse(const char *text, int64_t *bytes, bool *bare, const char **why)
{
    /* Units of bytes. Upper and lower case are the same. A single letter is a binary unit, as for GPUs, containers and batch
     * systems. */
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"KiB", 1LL << 10},
                 {"MiB", 1LL << 20},
                 {"GiB", 1LL << 30},
                 {"TiB", 1LL << 40},
                 {"K", 1LL << 10},
                 {"M", 1LL << 20},
                 {"G", 1LL << 30},
                 {"T", 1LL << 40},
                 {"kB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"TB", 1000000000000}};
    const char *end;
    double value;
    int64_t exact;
    if (!mp_number_parse(text, &end, &value, &exact)) {
        *why = "is not a number of bytes like 8GiB, 800MB or 16e9, nor 60%, min, min+50%, device or auto";
        return false;
    }
    while (*end == ' ') end++;
    *bare = !*end;
    for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
        if (strcasecmp(units[k].name, end)) continue;
        double product = floor(value * (double)units[k].bytes);
        if (product >= 9.2e18) {
            *why = "is more than 64 bits can count";
            return false;
        }
        *bytes = exact >= 0 ? exact * units[k].bytes : (int64_t)product;
        return true;
    }
    *why = "has an unknown unit; use B, KiB, MiB, GiB, TiB (K, M, G, T), kB, MB, GB, TB or %";
    return false;
}
