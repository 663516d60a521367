/* accuracy.c - groups of networks, and the errors of their published steps. */
#include "estimator/training/accuracy.h"

#include <stdio.h>

/* Errors of the networks that the fit of rates.def did not use, in percent: python/bench/fit_rates.py DATA CACHE unseen. */
typedef struct group {
    const char *name;
    mp_timed_family first, last;
    double median, low, high;
} group;
static const group groups[] = {{"depthwise", MP_TIMED_DEPTHWISE_FORWARD, MP_TIMED_LARGE_LAST_WEIGHT, 4.8, -28, 12},
                               {"convolutions", MP_TIMED_NARROW_FORWARD, MP_TIMED_WINDOW_WEIGHT, 4.8, -36, 17},
                               {"products", MP_TIMED_PRODUCT, MP_TIMED_BATCHED_UNALIGNED, 4.6, -18, 10}};
/* Errors for GPTs on 8 to 3,072 A100: tests/bench/bench_times.py. No constant was fitted to these steps. */
static const group on_many = {"products on many devices", MP_TIMED_PRODUCT, MP_TIMED_BATCHED_UNALIGNED, 4.5, -28, 3};
/* families without a published time */
static const group unknown = {.first = MP_TIMED_ATTENTION_FORWARD, .last = MP_TIMED_RECURRENT};
static const double MOST_UNKNOWN = 0.3; /* largest share of the seconds in families without a published time */

static double seconds_of(const mp_spending *spending, const group *g)
{
    double sum = 0;
    for (int k = g->first; k <= (int)g->last; k++) sum += spending->seconds[k];
    return sum;
}

bool mp_accuracy_tell(const mp_spending *spending, int64_t n_devices, char text[MP_ACCURACY_TEXT])
{
    static const char doubt[] = "warning: no published step resembles this network, so its seconds may be wrong";
    const group all = {.first = 0, .last = MP_N_TIMED - 1}, *most = groups;
    const double sum = seconds_of(spending, &all), unpublished = seconds_of(spending, &unknown);
    for (size_t k = 1; k < sizeof groups / sizeof *groups; k++)
        if (seconds_of(spending, &groups[k]) > seconds_of(spending, most)) most = &groups[k];
    const bool is_published = unpublished <= MOST_UNKNOWN * sum, has_products = seconds_of(spending, most) > 0;
    const bool is_measured_on_many = most->first == on_many.first;
    if (!is_published || !has_products || (n_devices > 1 && !is_measured_on_many)) {
        if (is_published && has_products)
            snprintf(text, MP_ACCURACY_TEXT, "%s: on many devices, only steps of mostly products are published", doubt);
        else if (is_published)
            snprintf(text, MP_ACCURACY_TEXT, "%s: it has neither convolutions nor products", doubt);
        else
            snprintf(text, MP_ACCURACY_TEXT, "%s: %.0f %% are in kernels without a published time", doubt,
                     100 * unpublished / sum);
        return false;
    }
    if (n_devices > 1) most = &on_many;
    snprintf(text, MP_ACCURACY_TEXT, "seconds, mostly %s: median error %.1f %%, 19 of 20 within %+.0f to %+.0f %%", most->name,
             most->median, most->low, most->high);
    return true;
}

double mp_counted_seconds(mp_counted_device *counted, const mp_work *work)
{
    const double seconds = mp_node_seconds(counted->device, work);
    if (mp_has_achieved_rates(counted->device)) counted->spending.seconds[mp_kernel_of_work(work).family] += seconds;
    return seconds;
}

static mp_status counted_cost(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err)
{
    (void)err;
    *cost = (mp_cost){.seconds = mp_counted_seconds(target->details, work)};
    return MP_OK;
}

mp_target mp_counted_target(mp_counted_device *counted)
{
    mp_target target = mp_roofline(counted->device);
    target.cost = counted_cost;
    target.details = counted;
    return target;
}
