/* test_links.c - measured links: on a simulated clock that only copies advance, by the time of a simulated link; on a device
 * with one clock per stream; and fits to given seconds. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/tiers/link.h"
#include "tests/cases/test.h"

/* A clock advanced only by copies: the copying thread reads it when a copy begins, and sleeps. */
typedef struct imagined {
    pthread_mutex_t lock;
    pthread_t measures;
    double latency, seconds;
} imagined;

static double imagined_now(void *clock)
{
    imagined *c = clock;
    pthread_mutex_lock(&c->lock);
    if (!pthread_equal(pthread_self(), c->measures)) c->seconds += c->latency;
    const double seconds = c->seconds;
    pthread_mutex_unlock(&c->lock);
    return seconds;
}

static void imagined_sleep(void *clock, double seconds)
{
    imagined *c = clock;
    pthread_mutex_lock(&c->lock);
    c->seconds = fmax(c->seconds, seconds);
    pthread_mutex_unlock(&c->lock);
}

static void assert_near(double value, double expected, double share)
{
    if (!(fabs(value - expected) <= share * expected)) fail_msg("%g instead of %g", value, expected);
}

static const char *folder(void)
{
    const char *place = getenv("TMPDIR");
    return place ? place : "/tmp";
}

TEST(a_link_is_measured_as_slow_as_it_is)
{
    for (int k = 0; k < 2; k++) {
        imagined clock = {PTHREAD_MUTEX_INITIALIZER, .measures = pthread_self(), .latency = k ? 5e-3 : 0};
        mp_copy_queue_options options = {50e6, false, imagined_now, imagined_sleep, &clock};
        mp_link_speed speed;
        mp_error err = {0};
        if (mp_link_measure_host(k ? NULL : folder(), &options, &speed, &err) != MP_OK) fail_msg("%s", err.message);
        for (int s = 0; s < MP_LINK_SIZES; s++) {
            const double seconds = clock.latency + (double)speed.sizes[s].bytes / 50e6;
            assert_near(speed.sizes[s].out_seconds, seconds, 1e-6);
            assert_near(speed.sizes[s].in_seconds, seconds, 1e-6);
        }
        const mp_link link = mp_link_fit(&speed);
        assert_near(link.out_bytes_per_second, 50e6, 1e-6);
        assert_near(link.in_bytes_per_second, 50e6, 1e-6);
        if (!(fabs(link.latency_seconds - clock.latency) < 1e-8)) fail_msg("latency %g", link.latency_seconds);
    }
}

/* ---- a device with one clock per stream, where copies slow down computation ---- */

enum { LATEST = 8 };

typedef struct clocks {
    mp_backend backend; /* must be first */
    mp_link link;
    double host, now[MP_MAX_CHANNELS], times[3]; /* times of the enqueuing host and of the streams; stream 0 is the main one */
    double free_at;                              /* time at which a link shared by both directions is free */
    double compute_slower;                       /* factor during copies */
    double copies_until[LATEST];                 /* ends of the latest copies */
    int stream, n_copies;
    bool fails;
    int n_taken;
} clocks;

static clocks *clocks_of(const mp_backend *self)
{
    return (clocks *)self;
}

static double enqueued(clocks *c)
{
    c->host += 2e-6;
    return fmax(c->now[c->stream], c->host);
}

static mp_status clocks_side_begin(const mp_backend *self, int channel, mp_error *err)
{
    clocks *c = clocks_of(self);
    assert_true(!c->stream && channel > 0);
    if (c->fails) return MP_FAIL(err, MP_IO, "the device has failed");
    c->now[channel] = fmax(c->now[channel], c->now[0]);
    c->stream = channel;
    return MP_OK;
}

static mp_status clocks_side_end(const mp_backend *self, int channel, int mark, mp_error *err)
{
    (void)err, (void)mark;
    assert_int_equal(clocks_of(self)->stream, channel);
    clocks_of(self)->stream = 0;
    return MP_OK;
}

static mp_status clocks_side_wait(const mp_backend *self, int channel, int mark, mp_error *err)
{
    clocks *c = clocks_of(self);
    (void)err, (void)mark;
    c->now[0] = fmax(c->now[0], c->now[channel]);
    return MP_OK;
}

static mp_status clocks_note_time(const mp_backend *self, int k, mp_error *err)
{
    (void)err;
    clocks_of(self)->times[k] = enqueued(clocks_of(self));
    return MP_OK;
}

static mp_status clocks_seconds_between(const mp_backend *self, int from, int to, double *seconds, mp_error *err)
{
    (void)err;
    *seconds = clocks_of(self)->times[to] - clocks_of(self)->times[from];
    return MP_OK;
}

static mp_status clocks_wait(const mp_backend *self, mp_error *err)
{
    clocks *c = clocks_of(self);
    (void)err;
    for (int k = 0; k < MP_MAX_CHANNELS; k++) c->host = fmax(c->host, c->now[k]);
    return MP_OK;
}

static void clocks_begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors)
{
    (void)self, (void)seed, (void)step, (void)factors;
}

/* An addition on a side stream is slower if it begins during a copy that was enqueued before it. */
static void clocks_add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to)
{
    clocks *c = clocks_of(self);
    assert_int_equal(dtype, MP_DTYPE_FLOAT);
    assert_true(from != to);
    const double start = enqueued(c);
    bool beside = false;
    for (int k = 0; k < LATEST; k++) beside |= c->stream && c->copies_until[k] > start;
    c->now[c->stream] = start + (double)n * 12 / 1e12 * (beside ? c->compute_slower : 1);
}

static void clocks_copy(const mp_backend *self, void *to, const void *from, int64_t bytes)
{
    clocks *c = clocks_of(self);
    const bool is_out = c->stream == 2;
    (void)to, (void)from;
    double start = enqueued(c);
    if (c->link.is_shared) start = fmax(start, c->free_at);
    const double seconds =
        c->link.latency_seconds + (double)bytes / (is_out ? c->link.out_bytes_per_second : c->link.in_bytes_per_second);
    c->now[c->stream] = start + seconds;
    if (c->link.is_shared) c->free_at = c->now[c->stream];
    c->copies_until[c->n_copies++ % LATEST] = c->now[c->stream];
}

static void *clocks_allocate(const mp_backend *self, int64_t bytes)
{
    (void)bytes;
    if (clocks_of(self)->n_taken > 1) return NULL;
    clocks_of(self)->n_taken++;
    return malloc(1); /* this memory is never read or written */
}

static void clocks_release(const mp_backend *self, void *memory, int64_t bytes)
{
    (void)bytes;
    clocks_of(self)->n_taken--;
    free(memory);
}

static void clocks_unpin(const mp_backend *self, void *memory)
{
    clocks_release(self, memory, 0);
}

static clocks device_of_clocks(mp_link link)
{
    return (clocks){.backend = {.name = "clocks",
                                .side_begin = clocks_side_begin,
                                .side_end = clocks_side_end,
                                .side_wait = clocks_side_wait,
                                .note_time = clocks_note_time,
                                .seconds_between = clocks_seconds_between,
                                .wait = clocks_wait,
                                .begin = clocks_begin,
                                .add = clocks_add,
                                .copy = clocks_copy,
                                .allocate = clocks_allocate,
                                .release = clocks_release,
                                .pin = clocks_allocate,
                                .unpin = clocks_unpin},
                    .link = link,
                    .compute_slower = 1};
}

TEST(a_device_is_timed_and_not_the_host_that_enqueues)
{
    for (int k = 0; k < 2; k++) {
        const mp_link link = {
            .out_bytes_per_second = 20e9, .in_bytes_per_second = 25e9, .latency_seconds = 8e-6, .is_shared = k};
        clocks c = device_of_clocks(link);
        mp_link_speed speed;
        mp_error err = {0};
        c.compute_slower = 1.25;
        if (mp_link_measure_device(&c.backend, &speed, &err) != MP_OK) fail_msg("%s", err.message);
        for (int s = 0; s < MP_LINK_SIZES; s++)
            assert_near(speed.sizes[s].in_seconds, 8e-6 + (double)speed.sizes[s].bytes / 25e9, 1e-6);
        const mp_link found = mp_link_fit(&speed);
        assert_near(found.out_bytes_per_second, 20e9, 1e-6);
        assert_near(found.in_bytes_per_second, 25e9, 1e-6);
        assert_near(found.latency_seconds, 8e-6, 1e-6);
        assert_int_equal(found.is_shared, k);
        assert_near(speed.memory.compute, 1.25, 1e-6);
        assert_near(speed.arithmetic.compute, 1.25, 1e-6);
        assert_near(speed.memory.copy, 1, 1e-6);
        assert_int_equal(c.n_taken, 0);
    }
}

TEST(a_device_that_has_no_memory_or_fails_is_named)
{
    mp_link_speed speed;
    for (int k = 0; k < 3; k++) {
        clocks c = device_of_clocks((mp_link){.out_bytes_per_second = 1e9, .in_bytes_per_second = 1e9});
        mp_error err = {0};
        c.n_taken = 2 - k;
        c.fails = true;
        assert_int_equal(mp_link_measure_device(&c.backend, &speed, &err), k < 2 ? MP_NOMEM : MP_IO);
        assert_non_null(strstr(err.message, k == 0   ? "the device has less than 384 MiB"
                                            : k == 1 ? "cannot pin"
                                                     : "has failed"));
        assert_int_equal(c.n_taken, 2 - k);
    }
}

/* Returns the seconds of copies over a link. */
static mp_link_speed over(const mp_link *link, double both)
{
    mp_link_speed speed = {0};
    for (int k = 0; k < MP_LINK_SIZES; k++) {
        const double bytes = 65536.0 * pow(4, k);
        speed.sizes[k] = (mp_link_size){(int64_t)bytes, link->latency_seconds + bytes / link->out_bytes_per_second,
                                        link->latency_seconds + bytes / link->in_bytes_per_second};
    }
    const mp_link_size *last = &speed.sizes[MP_LINK_SIZES - 1];
    const double longer = fmax(last->out_seconds, last->in_seconds);
    speed.both_seconds = longer + both * (last->out_seconds + last->in_seconds - longer);
    return speed;
}

TEST(each_way_has_its_rate_and_both_a_latency)
{
    const mp_link link = {.out_bytes_per_second = 3e9, .in_bytes_per_second = 5e9, .latency_seconds = 100e-6};
    for (int k = 0; k < 2; k++) {
        const mp_link_speed speed = over(&link, k ? 0.9 : 0.1);
        const mp_link found = mp_link_fit(&speed);
        assert_near(found.out_bytes_per_second, 3e9, 1e-9);
        assert_near(found.in_bytes_per_second, 5e9, 1e-9);
        assert_near(found.latency_seconds, 100e-6, 1e-9);
        assert_int_equal(found.is_shared, k);
    }
}

/* No link in a grid of latencies and rates has a smaller error. */
TEST(no_link_is_nearer)
{
    const mp_link link = {.out_bytes_per_second = 2e9, .in_bytes_per_second = 2e9, .latency_seconds = 50e-6};
    mp_link_speed speed = over(&link, 1);
    double least = INFINITY, found = 0;
    for (int k = 0; k < MP_LINK_SIZES; k++) speed.sizes[k].in_seconds = speed.sizes[k].out_seconds *= k % 2 ? 1.2 : 0.9;
    const mp_link fitted = mp_link_fit(&speed);
    for (int i = 0; i <= 10000; i++) {
        const double latency = i ? 0.1e-6 * (i % 100) * 10 : fitted.latency_seconds;
        const double rate = i ? 1.5e9 + 1e7 * (i / 100.0) : fitted.out_bytes_per_second;
        double sum = 0;
        for (int k = 0; k < MP_LINK_SIZES; k++) {
            const double e = (latency + (double)speed.sizes[k].bytes / rate) / speed.sizes[k].out_seconds - 1;
            sum += e * e;
        }
        if (i)
            least = fmin(least, sum);
        else
            found = sum;
    }
    assert_true(found <= least);
    assert_true(least < 1.01 * found);
}

TEST(what_cannot_be_taken_is_said)
{
    mp_link_speed speed;
    for (long n = 0; n < 3; n++) {
        mp_error err = {0};
        mp_alloc_budget = n;
        const mp_status st = mp_link_measure_host("/tmp/no/such/folder", &(mp_copy_queue_options){0}, &speed, &err);
        mp_alloc_budget = -1;
        assert_int_equal(st, MP_IO);
        assert_non_null(strstr(err.message, "/tmp/no/such/folder: No such file or directory"));
    }
    for (long n = 0, live = mp_alloc_live; n < 5; n++) {
        mp_error err = {0};
        mp_alloc_budget = n;
        assert_int_equal(mp_link_measure_host(NULL, &(mp_copy_queue_options){0}, &speed, &err), MP_NOMEM);
        mp_alloc_budget = -1;
        assert_int_equal(mp_alloc_live, live);
    }
}
