/* test_links.c - measured links: on a clock that only copies advance, by as much as an imagined link takes; and fits to seconds
 * made up by hand. */
#include <math.h>
#include <pthread.h>

#include "estimator/base/memory.h"
#include "executor/tiers/link_speed.h"
#include "tests/cases/test.h"

/* A clock on which nothing but copying takes time: the thread that copies looks at it as a copy begins, and sleeps. */
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
        if (mp_link_measure(k ? NULL : folder(), &options, &speed, &err) != MP_OK) fail_msg("%s", err.message);
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

/* Seconds of copies over a link. */
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

/* A grid of latencies and rates has none that is nearer. */
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
        const mp_status st = mp_link_measure("/tmp/no/such/folder", &(mp_copy_queue_options){0}, &speed, &err);
        mp_alloc_budget = -1;
        assert_int_equal(st, MP_IO);
        assert_non_null(strstr(err.message, "/tmp/no/such/folder: No such file or directory"));
    }
    for (long n = 0, live = mp_alloc_live; n < 5; n++) {
        mp_error err = {0};
        mp_alloc_budget = n;
        assert_int_equal(mp_link_measure(NULL, &(mp_copy_queue_options){0}, &speed, &err), MP_NOMEM);
        mp_alloc_budget = -1;
        assert_int_equal(mp_alloc_live, live);
    }
}
