/* link_speed.c - times copies of several sizes, in both directions at once, and beside computation; and fits a link's latency
 * and rates to the times. */
#include "executor/tiers/link.h"

#include <math.h>
#include <stdlib.h>

static int by_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measures the median time of several copies of `bytes` bytes. */
static mp_status time_copies(const mp_link_probe *p, int64_t bytes, bool is_out, bool both, double *median, mp_error *err)
{
    double seconds[MP_LINK_REPEATS];
    for (int k = 0; k < MP_LINK_REPEATS; k++) MP_CHECK(p->copy(p->link, bytes, is_out, both, &seconds[k], err));
    qsort(seconds, MP_LINK_REPEATS, sizeof *seconds, by_seconds);
    *median = seconds[MP_LINK_REPEATS / 2];
    return MP_OK;
}

mp_status mp_link_probe_all(const mp_link_probe *probe, mp_link_speed *out, mp_error *err)
{
    double first;
    const int64_t most = (int64_t)MP_LINK_LEAST << 2 * (MP_LINK_SIZES - 1);
    /* warm-up: the first use of a page, or of a block of a file, takes longer */
    for (int k = 0; k < 2; k++) MP_CHECK(probe->copy(probe->link, most, k == 0, true, &first, err));
    for (int k = 0; k < MP_LINK_SIZES; k++) {
        mp_link_size *size = &out->sizes[k];
        size->bytes = (int64_t)MP_LINK_LEAST << 2 * k;
        MP_CHECK(time_copies(probe, size->bytes, true, false, &size->out_seconds, err));
        MP_CHECK(time_copies(probe, size->bytes, false, false, &size->in_seconds, err));
    }
    MP_CHECK(time_copies(probe, most, true, true, &out->both_seconds, err));
    const mp_link_size *beside = &out->sizes[MP_LINK_AT_BESIDE];
    const double seconds = (beside->out_seconds + beside->in_seconds) / 2;
    MP_CHECK(probe->beside(probe->link, false, seconds, &out->arithmetic, err));
    return probe->beside(probe->link, true, seconds, &out->memory, err);
}

static double direction_seconds(const mp_link_size *size, bool is_out)
{
    return is_out ? size->out_seconds : size->in_seconds;
}

/* Fits the rate of one direction for a given latency. If *latency is NAN, the latency is fitted too. */
static double fit_rate(const mp_link_speed *speed, bool is_out, double *latency)
{
    /* sums of products of 1, bytes and seconds over all sizes. Each factor is first divided by the measured seconds, so that
     * relative errors count */
    double ww = 0, wx = 0, wt = 0, xx = 0, xt = 0;
    for (int k = 0; k < MP_LINK_SIZES; k++) {
        const double t = direction_seconds(&speed->sizes[k], is_out), w = 1 / t, x = (double)speed->sizes[k].bytes / t;
        ww += w * w;
        wx += w * x;
        wt += w;
        xx += x * x;
        xt += x;
    }
    if (isnan(*latency)) *latency = fmax(0, (wt * xx - xt * wx) / (ww * xx - wx * wx));
    return xx / (xt - *latency * wx);
}

mp_link mp_link_fit(const mp_link_speed *speed)
{
    const mp_link_size *largest = &speed->sizes[MP_LINK_SIZES - 1];
    const double longer = fmax(largest->out_seconds, largest->in_seconds);
    double out = NAN, in = NAN;
    fit_rate(speed, true, &out);
    fit_rate(speed, false, &in);
    double latency = (out + in) / 2;
    return (mp_link){.out_bytes_per_second = fit_rate(speed, true, &latency),
                     .in_bytes_per_second = fit_rate(speed, false, &latency),
                     .latency_seconds = latency,
                     .is_shared = speed->both_seconds > (longer + largest->out_seconds + largest->in_seconds) / 2};
}
