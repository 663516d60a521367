/* quantities.c - strictly parses numbers with units, and formats them for users. */
#include "cli/messages/quantities.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool parse_count(const char *text, int64_t *count)
{
    if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno) return false;
    *count = value;
    return true;
}

/* Parses the number at the start of `text`: decimal digits, at most one point and an exponent (no sign, hexadecimal or "inf").
 * If the number is a plain integer, *exact is its exact value, because a double may not represent it. */
static bool parse_number(const char *text, const char **end, double *value, int64_t *exact)
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
    if (digits == n && mantissa == n && !parse_count(copy, exact)) return false;
    *end = text + n;
    return isfinite(*value);
}

static bool parse_bytes(const char *text, int64_t *bytes, bool *bare, const char **why)
{
    /* Units of bytes. Upper and lower case have the same meaning. A single letter is a binary unit (K is KiB), as for GPUs,
     * containers and batch systems. */
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
    if (!parse_number(text, &end, &value, &exact)) {
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

bool budget_is_of_device(const budget *b)
{
    return b->kind == BUDGET_FREE || b->kind == BUDGET_DEVICE;
}

bool budget_parse(const char *text, budget *out, const char **why)
{
    const size_t word = !strncmp(text, "min", 3) ? 3 : !strncmp(text, "floor", 5) ? 5 : 0;
    const bool above = word && text[word] == '+';
    const char *number = above ? text + word + 1 : text, *end;
    size_t length = strlen(number);
    int64_t exact;
    *out = (budget){.kind = !strcmp(text, "auto") ? BUDGET_FREE : !strcmp(text, "device") ? BUDGET_DEVICE : BUDGET_BYTES};
    if (word && !text[word]) out->kind = BUDGET_ABOVE_MIN;
    if (budget_is_of_device(out) || out->kind == BUDGET_ABOVE_MIN) return true;
    if (!length || number[length - 1] != '%') {
        if (!above) {
            bool bare = false;
            const bool read = parse_bytes(text, &out->bytes, &bare, why);
            if (bare) out->bare = text;
            return read;
        }
        *why = "needs a percentage behind it, like min+50%";
        return false;
    }
    out->kind = above ? BUDGET_ABOVE_MIN : BUDGET_OF_PEAK;
    if (!parse_number(number, &end, &out->percent, &exact) || strcmp(end, "%") || out->percent > 1e6) {
        *why = "is not a percentage";
        return false;
    }
    return true;
}

int64_t budget_resolve(const budget *b, int64_t peak_bytes, int64_t smallest_bytes)
{
    const int64_t from = b->kind == BUDGET_ABOVE_MIN ? smallest_bytes : 0;
    /* bytes between the smallest plan and keep-all; 0 if the smallest plan with its arena needs more than keep-all's peak */
    const int64_t way = peak_bytes > from ? peak_bytes - from : 0;
    if (b->kind == BUDGET_BYTES) return b->bytes;
    double bytes = (double)from + floor((double)way * b->percent / 100);
    return bytes >= 9.2e18 ? INT64_MAX : (int64_t)bytes;
}

const char *budget_lacks_unit(const budget *b, int64_t peak_bytes)
{
    const int64_t kib = 1024;
    if (b->kind != BUDGET_BYTES || !b->bare || b->bytes >= kib || peak_bytes < kib * kib) return NULL;
    const char *is = mp_text("%.12s is %lld byte%s", b->bare, (long long)b->bytes, b->bytes == 1 ? "" : "s");
    const double value = strtod(b->bare, NULL), percent = value <= 1 ? 100 * value : value;
    if (value <= 0) return is;
    return percent <= 100 ? mp_text("%s; did you mean %g%%?", is, percent) : mp_text("%s; did you mean %gMiB?", is, value);
}

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

const char *extra_text(double value, double base)
{
    return value == base ? "0 %" : mp_text("%+.1f %%", base > 0 ? (value - base) / base * 100 : INFINITY);
}
