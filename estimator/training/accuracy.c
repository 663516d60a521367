/* accuracy.c - groups of networks, and the errors of their published steps. */
#include "estimator/training/accuracy.h"

#include <stdio.h>

/* Errors of the networks that the fit of rates.def did not use, in percent: python/bench/fit_rates.py DATA CACHE unseen. */
typedef struct group {
    const char *name;
    mp_timed_family first, last;
    int n_steps;
    double median, low, high;
} group;
static const group groups[] = {
    {"depthwise convolutions", MP_TIMED_DEPTHWISE_FORWARD, MP_TIMED_LARGE_LAST_WEIGHT, 8, 5.0, -29, 5},
    {"convolutions", MP_TIMED_NARROW_FORWARD, MP_TIMED_WINDOW_WEIGHT, 24, 7.1, -61, 10},
    {"matrix products", MP_TIMED_PRODUCT, MP_TIMED_BATCHED_UNALIGNED, 14, 3.9, -27, 5}};
/* families without a published time */
static const group unknown = {.first = MP_TIMED_ATTENTION_FORWARD, .last = MP_TIMED_RECURRENT};
static const double MOST_UNKNOWN = 0.3; /* largest share of the seconds in families without a published time */

static double seconds_of(const mp_spending *spending, const group *g)
{
    double sum = 0;
    for (int k = g->first; k <= (int)g->last; k++) sum += spending->seconds[k];
    return sum;
}

bool mp_accuracy_tell(const mp_spending *spending, char text[MP_ACCURACY_TEXT])
{
    const group all = {.first = 0, .last = MP_N_TIMED - 1}, *most = groups;
    const double sum = seconds_of(spending, &all), unpublished = seconds_of(spending, &unknown);
    for (size_t k = 1; k < sizeof groups / sizeof *groups; k++)
        if (seconds_of(spending, &groups[k]) > seconds_of(spending, most)) most = &groups[k];
    if (unpublished > MOST_UNKNOWN * sum || seconds_of(spending, most) <= 0) {
        snprintf(
            text, MP_ACCURACY_TEXT,
            "no published step resembles this network, so its seconds at achieved rates may be wrong: %.0f %% are in kernels "
            "without a published time",
            sum > 0 ? 100 * unpublished / sum : 0.0);
        return false;
    }
    snprintf(
        text, MP_ACCURACY_TEXT,
        "seconds at achieved rates: on %d published steps with mostly %s (RTX 3090), the median error is %.1f %%, and 19 of 20 "
        "are within %+.0f to %+.0f %%",
        most->n_steps, most->name, most->median, most->low, most->high);
    return true;
}

static mp_status counted_cost(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err)
{
    (void)err;
    mp_counted_device *counted = target->details;
    *cost = (mp_cost){.seconds = mp_node_seconds(counted->device, work)};
    if (mp_has_achieved_rates(counted->device)) counted->spending.seconds[mp_kernel_of_work(work).family] += cost->seconds;
    return MP_OK;
}

mp_target mp_counted_target(mp_counted_device *counted)
{
    mp_target target = mp_roofline(counted->device);
    target.cost = counted_cost;
    target.details = counted;
    return target;
}
