/* test_tiers.c - copies between memory and tiers: many at a time, in the order of their channels, compared with memcpy at the
 * moment of issue. Also a simulated link with a requested rate. */
#include <pthread.h>

#include "executor/tiers/copy_queue.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { DEVICE = 3 << 20, TIER = 4 << 20, COPIES = 10000, QUEUES = 2, MOST_UNDER_WAY = 600, UNKNOWN = 256 };

typedef struct flight {
    int queue;
    int64_t ticket, from, to, tier_from, tier_to; /* byte ranges [from, to) of the device and of the tier */
    bool is_out;
} flight;

/* A device, a tier, and a model of both after a memcpy at the moment of issue: each byte's value, or UNKNOWN. */
typedef struct copies {
    mp_tier tier;
    mp_copy_queue *queues[QUEUES];
    unsigned char *device;
    uint16_t *device_model, *tier_model;
    flight under_way[MOST_UNDER_WAY];
    int n_under_way;
    int64_t n_compared;
    mp_copied issued;
} copies;

static void check(mp_status st, const mp_error *err)
{
    if (st != MP_OK) fail_msg("%s", err->message);
}

static void wait_for(copies *c, flight f)
{
    mp_error err = {0};
    int left = 0;
    check(mp_copy_queue_wait(c->queues[f.queue], f.ticket, &err), &err);
    for (int k = 0; k < c->n_under_way; k++)
        if (c->under_way[k].queue != f.queue || c->under_way[k].ticket > f.ticket) c->under_way[left++] = c->under_way[k];
    c->n_under_way = left;
}

/* Waits for copies on other queues that conflict with a use of these bytes. */
static void wait_for_others(copies *c, int queue, flight use, bool changes_device, bool changes_tier)
{
    for (int k = c->n_under_way - 1; k >= 0; k--) {
        const flight f = c->under_way[k];
        const bool device = f.from < use.to && use.from < f.to && (changes_device || !f.is_out);
        const bool tier = f.tier_from < use.tier_to && use.tier_from < f.tier_to && (changes_tier || f.is_out);
        if (f.queue == queue || (!device && !tier)) continue;
        wait_for(c, f);
        k = c->n_under_way;
    }
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + MP_TIER_ALIGNMENT - 1) / MP_TIER_ALIGNMENT * MP_TIER_ALIGNMENT;
}

static void issue(copies *c, random_source *r)
{
    mp_error err = {0};
    const int64_t bytes = random_below(r, 50) ? 1 + random_below(r, 9000) : 1 + random_below(r, DEVICE);
    const int64_t step = random_chance(r, 50) ? MP_TIER_ALIGNMENT : random_chance(r, 50) ? 64 : 1;
    const int64_t at = random_below(r, (int)((DEVICE - bytes) / step) + 1) * step;
    const int64_t there = random_below(r, (int)((TIER - rounded(bytes)) / MP_TIER_ALIGNMENT) + 1) * (int64_t)MP_TIER_ALIGNMENT;
    flight f = {random_below(r, QUEUES), 0, at, at + bytes, there, there + rounded(bytes), random_chance(r, 50)};
    if (c->n_under_way == MOST_UNDER_WAY) wait_for(c, c->under_way[0]);
    wait_for_others(c, f.queue, f, !f.is_out, f.is_out);
    const mp_copy copy = {&c->tier, there, (char *)c->device + at, bytes, f.is_out, "x"};
    check(mp_copy_queue_issue(c->queues[f.queue], &copy, &f.ticket, &err), &err);
    c->under_way[c->n_under_way++] = f;
    if (f.is_out) {
        for (int64_t k = there + bytes; k < f.tier_to; k++) c->tier_model[k] = UNKNOWN;
        memcpy(c->tier_model + there, c->device_model + at, (size_t)bytes * sizeof *c->tier_model);
    } else {
        memcpy(c->device_model + at, c->tier_model + there, (size_t)bytes * sizeof *c->tier_model);
    }
    *(f.is_out ? &c->issued.out_bytes : &c->issued.in_bytes) += bytes;
}

/* Overwrites bytes of the device, like a kernel: first waits for copies that read or write them. */
static void overwrite(copies *c, random_source *r)
{
    const int64_t bytes = 1 + random_below(r, 20000), at = random_below(r, DEVICE - (int)bytes);
    wait_for_others(c, -1, (flight){.from = at, .to = at + bytes}, true, false);
    for (int64_t k = at; k < at + bytes; k++) c->device_model[k] = c->device[k] = (unsigned char)random_next(r);
}

static void compare(copies *c, const unsigned char *bytes, const uint16_t *model, int64_t from, int64_t to, const char *what)
{
    for (int64_t k = from; k < to; k++) {
        if (model[k] == UNKNOWN) continue;
        if (model[k] != bytes[k]) fail_msg("byte %lld of the %s is %u instead of %u", (long long)k, what, bytes[k], model[k]);
        c->n_compared++;
    }
}

static void read_some(copies *c, random_source *r)
{
    const int64_t bytes = 1 + random_below(r, 50000), at = random_below(r, DEVICE - (int)bytes);
    wait_for_others(c, -1, (flight){.from = at, .to = at + bytes}, false, false);
    compare(c, c->device, c->device_model, at, at + bytes, "device");
}

static void run_copies(const char *folder, bool plain)
{
    static copies c;
    mp_error err = {0};
    mp_copied done = {0};
    int64_t ticket;
    random_source r = {7};
    memset(&c, 0, sizeof c);
    check(mp_tier_open("host", folder, TIER, false, &c.tier, &err), &err);
    for (int q = 0; q < QUEUES; q++)
        check(mp_copy_queue_new(&(mp_copy_queue_options){.plain = plain}, &c.queues[q], &err), &err);
    c.device = aligned_alloc(MP_TIER_ALIGNMENT, DEVICE > TIER ? DEVICE : TIER);
    c.device_model = calloc(DEVICE, sizeof *c.device_model);
    c.tier_model = calloc(TIER, sizeof *c.tier_model);
    for (int64_t k = 0; k < DEVICE; k++) c.device_model[k] = c.device[k] = (unsigned char)random_next(&r);
    for (int k = 0; k < COPIES; k++) {
        if (random_chance(&r, 50)) overwrite(&c, &r);
        if (random_chance(&r, 5)) read_some(&c, &r);
        issue(&c, &r);
    }
    while (c.n_under_way) wait_for(&c, c.under_way[0]);
    compare(&c, c.device, c.device_model, 0, DEVICE, "device");
    const mp_copy back = {&c.tier, 0, (char *)c.device, TIER, false, "all"};
    check(mp_copy_queue_issue(c.queues[0], &back, &ticket, &err), &err);
    check(mp_copy_queue_wait(c.queues[0], ticket, &err), &err);
    c.issued.in_bytes += TIER;
    compare(&c, c.device, c.tier_model, 0, TIER, "tier");
    assert_true(c.n_compared > (DEVICE + TIER) / 2 + (int64_t)COPIES * 5 / 100 * 10000);
    for (int q = 0; q < QUEUES; q++) {
        const mp_copied one = mp_copy_queue_copied(c.queues[q]);
        assert_true(one.out_bytes > 0 && one.in_bytes > 0);
        done.out_bytes += one.out_bytes;
        done.in_bytes += one.in_bytes;
        mp_copy_queue_free(c.queues[q]);
    }
    assert_int_equal(done.out_bytes, c.issued.out_bytes);
    assert_int_equal(done.in_bytes, c.issued.in_bytes);
    mp_tier_close(&c.tier);
    free(c.device);
    free(c.device_model);
    free(c.tier_model);
}

TEST(copies_to_memory_are_those_of_memcpy)
{
    run_copies(NULL, false);
}

TEST(copies_to_a_file_are_those_of_memcpy)
{
    const char *place = getenv("TMPDIR");
    run_copies(place ? place : "/tmp", false);
}

TEST(copies_to_a_file_without_io_uring_are_those_of_memcpy)
{
    const char *place = getenv("TMPDIR");
    run_copies(place ? place : "/tmp", true);
}

/* On file systems without O_DIRECT, such as older in-memory ones. */
TEST(copies_to_a_file_in_memory_are_those_of_memcpy)
{
    run_copies("/dev/shm", false);
}

/* A clock that advances only by sleeping. */
typedef struct hand_clock {
    pthread_mutex_t lock;
    double seconds;
} hand_clock;

static double now(void *data)
{
    hand_clock *c = data;
    pthread_mutex_lock(&c->lock);
    const double seconds = c->seconds;
    pthread_mutex_unlock(&c->lock);
    return seconds;
}

static void sleep_until(void *data, double seconds)
{
    hand_clock *c = data;
    pthread_mutex_lock(&c->lock);
    if (seconds > c->seconds) c->seconds = seconds;
    pthread_mutex_unlock(&c->lock);
}

TEST(a_slow_link_takes_its_time)
{
    hand_clock clock = {PTHREAD_MUTEX_INITIALIZER, 5};
    const char *place = getenv("TMPDIR");
    for (int kind = 0; kind < 2; kind++) {
        mp_error err = {0};
        mp_tier tier;
        mp_copy_queue *queue;
        int64_t ticket = 0;
        const double from = clock.seconds;
        char *memory = calloc(1, TIER);
        const mp_copy_queue_options options = {
            .bytes_per_second = 1 << 19, .now = now, .sleep_until = sleep_until, .clock = &clock};
        check(mp_tier_open("host", kind ? place ? place : "/tmp" : NULL, TIER, false, &tier, &err), &err);
        check(mp_copy_queue_new(&options, &queue, &err), &err);
        const mp_copy out = {&tier, 0, memory, TIER, true, "x"}, in = {&tier, 0, memory, 1 << 18, false, "x"};
        check(mp_copy_queue_issue(queue, &out, &ticket, &err), &err);
        check(mp_copy_queue_issue(queue, &in, &ticket, &err), &err);
        check(mp_copy_queue_wait(queue, ticket, &err), &err);
        assert_true(now(&clock) == from + 8.5); /* 4 MiB and a quarter, at half a MiB per second */
        sleep_until(&clock, from + 100);        /* idle time does not increase the rate later */
        check(mp_copy_queue_issue(queue, &out, &ticket, &err), &err);
        check(mp_copy_queue_wait(queue, ticket, &err), &err);
        assert_true(now(&clock) == from + 108);
        mp_copy_queue_free(queue);
        mp_tier_close(&tier);
        free(memory);
    }
}

/* A link's clock that stops until the caller continues. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_t caller;
    bool waits_elsewhere;
} gate;

static void sleep_at_gate(void *data, double seconds)
{
    gate *g = data;
    (void)seconds;
    g->waits_elsewhere = !pthread_equal(pthread_self(), g->caller);
    if (!g->waits_elsewhere) return;
    pthread_mutex_lock(&g->lock);
    pthread_mutex_unlock(&g->lock);
}

static double no_time(void *data)
{
    (void)data;
    return 0;
}

/* The issuing thread continues computation during a copy. */
TEST(a_copy_stops_nobody_but_who_waits_for_it)
{
    gate g = {PTHREAD_MUTEX_INITIALIZER, pthread_self(), false};
    mp_error err = {0};
    mp_tier tier;
    mp_copy_queue *queue;
    int64_t ticket = -1;
    char from[100] = "computed", other[100] = "";
    const mp_copy_queue_options options = {.bytes_per_second = 1, .now = no_time, .sleep_until = sleep_at_gate, .clock = &g};
    check(mp_tier_open("host", NULL, sizeof from, false, &tier, &err), &err);
    check(mp_copy_queue_new(&options, &queue, &err), &err);
    const mp_copy out = {&tier, 0, from, sizeof from, true, "x"}, in = {&tier, 0, other, sizeof other, false, "x"};
    pthread_mutex_lock(&g.lock);
    check(mp_copy_queue_issue(queue, &out, &ticket, &err), &err);
    check(mp_copy_queue_issue(queue, &in, &ticket, &err), &err);
    assert_int_equal(mp_copy_queue_copied(queue).out_bytes, 0); /* computation continues here */
    pthread_mutex_unlock(&g.lock);
    check(mp_copy_queue_wait(queue, ticket, &err), &err);
    assert_true(g.waits_elsewhere);
    assert_string_equal(other, from);
    mp_copy_queue_free(queue);
    mp_tier_close(&tier);
}

TEST(what_is_not_within_a_tier_is_refused)
{
    mp_tier memory, file;
    mp_copy_queue *queue;
    mp_error err = {0};
    int64_t ticket = -1;
    char byte = 0;
    check(mp_tier_open("host", NULL, 100, false, &memory, &err), &err);
    check(mp_tier_open("disk", "/tmp", 9000, false, &file, &err), &err);
    check(mp_copy_queue_new(&(mp_copy_queue_options){0}, &queue, &err), &err);
    const mp_copy behind = {&memory, 97, &byte, 4, true, "h"}, before = {&memory, -1, &byte, 1, true, "h"};
    const mp_copy huge = {&memory, INT64_MAX, &byte, 1, true, "h"}, odd = {&file, 64, &byte, 1, true, "h"};
    assert_int_equal(mp_copy_queue_issue(queue, &behind, &ticket, &err), MP_INVALID);
    assert_string_equal(err.message, "'h', 4 bytes at 97, is not within the 100 bytes of the tier 'host'");
    assert_int_equal(mp_copy_queue_issue(queue, &before, &ticket, NULL), MP_INVALID);
    assert_int_equal(mp_copy_queue_issue(queue, &huge, &ticket, NULL), MP_INVALID);
    assert_int_equal(mp_copy_queue_issue(queue, &odd, &ticket, NULL), MP_INVALID);
    assert_int_equal(ticket, -1);
    mp_copy_queue_free(queue);
    mp_tier_close(&memory);
    mp_tier_close(&file);
}
