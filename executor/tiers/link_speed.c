/* link_speed.c - times copies of several sizes, one each way at once, and copies beside loops over vectors. */
#include "executor/tiers/link_speed.h"

#include <math.h>
#include <stdlib.h>

#include "estimator/base/clock.h"
#include "executor/cpu/base/parallel.h"

enum {
    LEAST = 64 << 10,
    MOST = 64 << 20,
    ROOM = 2 * MOST,
    SHIFT = 64,        /* bytes: activations begin at multiples of this, not of pages */
    BESIDE = 4 << 20,  /* bytes of a copy beside computing */
    PASSES = 20,       /* of computing, timed at once */
    COPIES = 20,       /* at least, beside them */
    MOST_AHEAD = 200,  /* copies issued and not ended, less than the queue has room for */
    VECTOR = 32 << 20, /* bytes that computing in memory goes through */
    ARITHMETIC = 64    /* computations with what is in a cache, for one with what is in memory */
};

/* What is measured, and with what. */
typedef struct measurement {
    const mp_copy_queue_options *options;
    mp_tier device, tier;
    float *vector;
    int repeats; /* of the loop over a block of the vector */
    int64_t at;  /* where the next copy goes: what the last ones have used is in caches */
    mp_copy_queue *queues[2];
} measurement;

static void end(measurement *m)
{
    for (int k = 0; k < 2; k++) mp_copy_queue_free(m->queues[k]);
    mp_tier_close(&m->tier);
    mp_tier_close(&m->device);
    mp_free(m->vector);
}

static double now(const measurement *m)
{
    return m->options->now ? m->options->now(m->options->clock) : mp_clock_now();
}

static mp_status issue(measurement *m, int queue, bool is_out, int64_t bytes, int64_t *ticket, mp_error *err)
{
    const int64_t offset = m->at + bytes <= ROOM ? m->at : 0;
    m->at = offset + bytes;
    const mp_copy copy = {&m->tier, offset, m->device.memory + offset + SHIFT, bytes, is_out, "measured"};
    return mp_copy_queue_issue(m->queues[queue], &copy, ticket, err);
}

static int by_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times a copy, or if `both` one each way at once. */
static mp_status time_copy(measurement *m, int64_t bytes, bool is_out, bool both, double *seconds, mp_error *err)
{
    int64_t tickets[2];
    const double from = now(m);
    for (int q = 0; q <= both; q++) MP_CHECK(issue(m, q, is_out != q, bytes, &tickets[q], err));
    for (int q = 0; q <= both; q++) MP_CHECK(mp_copy_queue_wait(m->queues[q], tickets[q], err));
    *seconds = now(m) - from;
    return MP_OK;
}

static mp_status time_copies(measurement *m, int64_t bytes, bool is_out, bool both, double *median, mp_error *err)
{
    double seconds[MP_LINK_REPEATS];
    for (int k = 0; k < MP_LINK_REPEATS; k++) MP_CHECK(time_copy(m, bytes, is_out, both, &seconds[k], err));
    qsort(seconds, MP_LINK_REPEATS, sizeof *seconds, by_seconds);
    *median = seconds[MP_LINK_REPEATS / 2];
    return MP_OK;
}

static void compute_block(void *data, int64_t k)
{
    const measurement *m = data;
    float *x = m->vector + k * MP_BLOCK;
    for (int r = 0; r < m->repeats; r++)
        for (int64_t e = 0; e < MP_BLOCK; e++) x[e] = 0.5F * x[e] + 1;
}

/* A pass over the vector, or over less of it that takes about as long. */
static void compute(measurement *m)
{
    const int64_t n = VECTOR / (int64_t)sizeof *m->vector / MP_BLOCK;
    mp_parallel(m->repeats > 1 ? n / (ARITHMETIC / 8) : n, (int64_t)MP_BLOCK * m->repeats, compute_block, m);
}

/* Computes, first alone, then beside copies out and back of which there are always some under way. */
static mp_status time_beside(measurement *m, int repeats, double copy_seconds, mp_link_beside *out, mp_error *err)
{
    const int64_t before = mp_copy_queue_copied(m->queues[0]).out_bytes;
    int64_t ticket, n_passes = 0, n_issued = 0, n_copied = 0;
    m->repeats = repeats;
    compute(m);
    const double from = now(m);
    for (int k = 0; k < PASSES; k++) compute(m);
    const double alone = (now(m) - from) / PASSES, beside = now(m);
    const int64_t ahead = 2 + (int64_t)fmin(MOST_AHEAD, 2 * alone / copy_seconds); /* copies enough for the next pass */
    while (n_passes < PASSES || n_copied < COPIES) {
        while (n_issued - n_copied < ahead) {
            MP_CHECK(issue(m, 0, true, BESIDE, &ticket, err));
            MP_CHECK(issue(m, 0, false, BESIDE, &ticket, err));
            n_issued += 2;
        }
        compute(m);
        n_passes++;
        n_copied = (mp_copy_queue_copied(m->queues[0]).out_bytes - before) / BESIDE * 2;
    }
    const double seconds = now(m) - beside;
    *out = (mp_link_beside){.compute = seconds / (double)n_passes / alone, .copy = seconds / (double)n_copied / copy_seconds};
    return mp_copy_queue_wait(m->queues[0], ticket, err);
}

mp_status mp_link_measure(const char *folder, const mp_copy_queue_options *options, mp_link_speed *out, mp_error *err)
{
    MP_CLEARED_BY(end) measurement m = {.options = options};
    double out_seconds, in_seconds;
    MP_CHECK(mp_tier_open("device", NULL, (int64_t)ROOM + SHIFT, false, &m.device, err));
    MP_CHECK(mp_tier_open(folder ? "disk" : "host", folder, ROOM, false, &m.tier, err));
    MP_ENSURE(m.vector = mp_alloc(VECTOR, 1), err, MP_NOMEM, "out of memory");
    /* not all the same, which a file system may compress */
    for (uint64_t k = 0, *words = (uint64_t *)m.device.memory; k < ROOM / sizeof *words; k++) words[k] = k * 0x9e3779b97f4a7c15;
    for (int q = 0; q < 2; q++) MP_CHECK(mp_copy_queue_new(options, &m.queues[q], err));
    /* the first use of a page, or of a block of a file, takes longer */
    for (int k = 0; k < 2; k++) MP_CHECK(time_copy(&m, MOST, k == 0, true, &out_seconds, err));
    for (int k = 0; k < MP_LINK_SIZES; k++) {
        mp_link_size *size = &out->sizes[k];
        size->bytes = (int64_t)LEAST << 2 * k;
        MP_CHECK(time_copies(&m, size->bytes, true, false, &size->out_seconds, err));
        MP_CHECK(time_copies(&m, size->bytes, false, false, &size->in_seconds, err));
    }
    MP_CHECK(time_copies(&m, MOST, true, true, &out->both_seconds, err));
    MP_CHECK(time_copies(&m, BESIDE, true, false, &out_seconds, err));
    MP_CHECK(time_copies(&m, BESIDE, false, false, &in_seconds, err));
    MP_CHECK(time_beside(&m, ARITHMETIC, (out_seconds + in_seconds) / 2, &out->arithmetic, err));
    return time_beside(&m, 1, (out_seconds + in_seconds) / 2, &out->memory, err);
}

static double seconds_of(const mp_link_size *size, bool is_out)
{
    return is_out ? size->out_seconds : size->in_seconds;
}

/* Returns the rate of a way at a given latency; the latency NAN is found too. */
static double fit_rate(const mp_link_speed *speed, bool is_out, double *latency)
{
    double ww = 0, wx = 0, wt = 0, xx = 0, xt = 0; /* sums of products of 1, bytes and seconds, each by the seconds */
    for (int k = 0; k < MP_LINK_SIZES; k++) {
        const double t = seconds_of(&speed->sizes[k], is_out), w = 1 / t, x = (double)speed->sizes[k].bytes / t;
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
