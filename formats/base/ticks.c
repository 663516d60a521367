/* ticks.c - chooses the length of a tick: the longest tick that loses no precision. */
#include "formats/base/ticks.h"

#include <math.h>
#include <stdbool.h>

static const double most_ticks = 0x1p51, most_each = 0x1p51, most_seconds = 1e18;

static bool all_whole(const double *seconds, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++) {
        double ticks = seconds[i] * scale;
        if (fabs(ticks - rint(ticks)) > 1e-13 * ticks) return false;
    }
    return true;
}

mp_status mp_ticks_choose(const double *seconds, size_t n, double *tick_seconds, size_t *culprit, mp_error *err)
{
    double total = 0, scale = 1;
    for (size_t i = 0; i < n; i++) {
        *culprit = i;
        if (!isfinite(seconds[i]) || seconds[i] < 0 || seconds[i] > most_seconds)
            return MP_FAIL(err, MP_PARSE, "%g seconds can't be counted", seconds[i]);
        total += seconds[i];
    }
    for (int k = 0; k <= 12 && total * scale <= most_ticks; k++, scale *= 10) {
        if (!all_whole(seconds, n, scale)) continue;
        *tick_seconds = 1 / scale;
        return MP_OK;
    }
    int exponent;
    frexp(total, &exponent); /* exponent is the smallest integer for which total < 2^exponent */
    if (exponent < -900) exponent = -900;
    *tick_seconds = ldexp(1, exponent - 51);
    return MP_OK;
}

mp_status mp_ticks_convert(const double *seconds, size_t n, double tick_seconds, int64_t *ticks, mp_error *err)
{
    double total = 0, found = 0;
    for (size_t i = 0; i < n; i++) {
        double exact = seconds[i] / tick_seconds;
        MP_ENSURE(exact <= most_each, err, MP_PARSE, "%g seconds are too many ticks of %g seconds", seconds[i], tick_seconds);
        ticks[i] = (int64_t)rint(exact);
        total += seconds[i];
        found += (double)ticks[i] * tick_seconds;
    }
    MP_ENSURE(fabs(found - total) <= 1e-9 * total, err, MP_PARSE, "ticks of %g seconds are too coarse for the graph's seconds",
              tick_seconds);
    return MP_OK;
}
