/* budget.c - reads a budget that a user has written. */
#include "memplan/budget.h"

#include <math.h>
#include <string.h>

#include "estimator/base/quantities.h"

bool mp_budget_is_of_device(const mp_budget *b)
{
    return b->kind == MP_BUDGET_FREE || b->kind == MP_BUDGET_DEVICE;
}

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " ");
}

/* Parses a budget without blanks at its ends. */
static bool read_budget(const char *text, mp_budget *out, const char **why)
{
    const size_t word = !strncmp(text, "min", 3) ? 3 : !strncmp(text, "floor", 5) ? 5 : 0;
    const char *plus = skip_blanks(text + word);
    const bool above = word && *plus == '+';
    const char *number = above ? skip_blanks(plus + 1) : text, *end;
    size_t length = strlen(number);
    int64_t exact;
    *out = (mp_budget){.kind = !strcmp(text, "auto")     ? MP_BUDGET_FREE
                               : !strcmp(text, "device") ? MP_BUDGET_DEVICE
                                                         : MP_BUDGET_BYTES};
    if (word && !text[word]) out->kind = MP_BUDGET_ABOVE_MIN;
    if (mp_budget_is_of_device(out) || out->kind == MP_BUDGET_ABOVE_MIN) return true;
    if (!length || number[length - 1] != '%') {
        if (!above) {
            bool bare = false;
            const bool read = mp_bytes_parse(text, &out->bytes, &bare, why);
            /* this pointer refers to mp_budget_parse's own copy of the text; mp_budget_parse then replaces it by the caller's
             * text */
            if (bare) out->bare = text;
            return read;
        }
        *why = "needs a percentage behind it, like min+50%";
        return false;
    }
    out->kind = above ? MP_BUDGET_ABOVE_MIN : MP_BUDGET_OF_PEAK;
    if (!mp_number_parse(number, &end, &out->percent, &exact) || strcmp(skip_blanks(end), "%") || out->percent > 1e6) {
        *why = "is not a percentage";
        return false;
    }
    return true;
}

bool mp_budget_parse(const char *text, mp_budget *out, const char **why)
{
    char trimmed[128];
    const char *begin = skip_blanks(text);
    size_t n = strlen(begin);
    while (n && begin[n - 1] == ' ') n--;
    if (n >= sizeof trimmed) {
        *why = "is too long for a budget";
        return false;
    }
    memcpy(trimmed, begin, n);
    trimmed[n] = 0;
    const bool read = read_budget(trimmed, out, why);
    if (out->bare) out->bare = begin;
    return read;
}

int64_t mp_budget_resolve(const mp_budget *b, int64_t peak_bytes, int64_t smallest_bytes)
{
    const int64_t from = b->kind == MP_BUDGET_ABOVE_MIN ? smallest_bytes : 0;
    /* difference in bytes between keep-all's peak and the smallest plan; 0 if the smallest plan, with its arena, exceeds
     * keep-all's peak */
    const int64_t way = peak_bytes > from ? peak_bytes - from : 0;
    if (b->kind == MP_BUDGET_BYTES) return b->bytes;
    double bytes = (double)from + floor((double)way * b->percent / 100);
    return bytes >= 9.2e18 ? INT64_MAX : (int64_t)bytes;
}
