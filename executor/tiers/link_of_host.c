/* link_of_host.c - times copies by a copy queue, as in a plan: alone, and beside loops over vectors. */
#include "executor/tiers/link.h"

#include <math.h>

#include "estimator/base/clock.h"
#include "executor/cpu/base/parallel.h"

enum {
    MOST = MP_LINK_LEAST << 2 * (MP_LINK_SIZES - 1),
    ROOM = 2 * MOST,
    SHIFT = 64,  /* offset of the copied memory from a page boundary in bytes, because activations are aligned to 64 bytes, not
                    to pages */
    PASSES = 20, /* number of compute passes timed together */
    COPIES = 20, /* minimum number of copies that run beside the compute passes */
    MOST_AHEAD = 200,  /* limit for copies issued and not ended; less than the capacity of the queue */
    VECTOR = 32 << 20, /* bytes of the vector that compute passes process; larger than the caches */
    ARITHMETIC = 64    /* number of computations with each value, if the values are in caches; values in memory are used once */
};

/* The state of a measurement. */
typedef struct measurement {
    const mp_copy_queue_options *options;
    mp_tier device, tier;
    float *vector;
    int repeats; /* number of times that a compute pass processes each block of the vector */
    int64_t at;  /* offset of the next copy; it moves on because recently copied bytes are still in caches */
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

/* Times one copy; with `both`, one copy in each direction at once. */
static mp_status time_copy(void *link, int64_t bytes, bool is_out, bool both, double *seconds, mp_error *err)
{
    measurement *m = link;
    int64_t tickets[2];
    const double from = now(m);
    for (int q = 0; q <= both; q++) MP_CHECK(issue(m, q, is_out != q, bytes, &tickets[q], err));
    for (int q = 0; q <= both; q++) MP_CHECK(mp_copy_queue_wait(m->queues[q], tickets[q], err));
    *seconds = now(m) - from;
    return MP_OK;
}

static void compute_block(void *data, int64_t k)
{
    const measurement *m = data;
    float *x = m->vector + k * MP_BLOCK;
    for (int r = 0; r < m->repeats; r++)
        for (int64_t e = 0; e < MP_BLOCK; e++) x[e] = 0.5F * x[e] + 1;
}

/* One compute pass over the vector. If each block is processed `repeats` times, the pass covers fewer blocks, so that the pass
 * takes about the same time. */
static void compute(measurement *m)
{
    const int64_t n = VECTOR / (int64_t)sizeof *m->vector / MP_BLOCK;
    mp_parallel(m->repeats > 1 ? n / (ARITHMETIC / 8) : n, (int64_t)MP_BLOCK * m->repeats, compute_block, m);
}

/* Times compute passes alone, then beside copies in both directions. Some copies are always in progress. */
static mp_status time_beside(void *link, bool in_memory, double copy_seconds, mp_link_beside *out, mp_error *err)
{
    measurement *m = link;
    const int64_t before = mp_copy_queue_copied(m->queues[0]).out_bytes;
    int64_t ticket, n_passes = 0, n_issued = 0, n_copied = 0;
    m->repeats = in_memory ? 1 : ARITHMETIC;
    compute(m);
    const double from = now(m);
    for (int k = 0; k < PASSES; k++) compute(m);
    const double alone = (now(m) - from) / PASSES, beside = now(m);
    const int64_t ahead =
        2 + (int64_t)fmin(MOST_AHEAD,
                          2 * alone / copy_seconds); /* number of copies that take at least as long as the compute passes */
    while (n_passes < PASSES || n_copied < COPIES) {
        while (n_issued - n_copied < ahead) {
            MP_CHECK(issue(m, 0, true, MP_LINK_BESIDE, &ticket, err));
            MP_CHECK(issue(m, 0, false, MP_LINK_BESIDE, &ticket, err));
            n_issued += 2;
        }
        compute(m);
        n_passes++;
        n_copied = (mp_copy_queue_copied(m->queues[0]).out_bytes - before) / MP_LINK_BESIDE * 2;
    }
    const double seconds = now(m) - beside;
    *out = (mp_link_beside){.compute = seconds / (double)n_passes / alone, .copy = seconds / (double)n_copied / copy_seconds};
    return mp_copy_queue_wait(m->queues[0], ticket, err);
}

mp_status mp_link_measure_host(const char *folder, const mp_copy_queue_options *options, mp_link_speed *out, mp_error *err)
{
    MP_CLEARED_BY(end) measurement m = {.options = options};
    const mp_link_probe probe = {&m, time_copy, time_beside};
    MP_CHECK(mp_tier_open("device", NULL, (int64_t)ROOM + SHIFT, false, &m.device, err));
    MP_CHECK(mp_tier_open(folder ? "disk" : "host", folder, ROOM, false, &m.tier, err));
    MP_ENSURE(m.vector = mp_alloc(VECTOR, 1), err, MP_NOMEM, "out of memory");
    /* fills the memory with varied content, because a file system may compress constant content */
    for (uint64_t k = 0, *words = (uint64_t *)m.device.memory; k < ROOM / sizeof *words; k++) words[k] = k * 0x9e3779b97f4a7c15;
    for (int q = 0; q < 2; q++) MP_CHECK(mp_copy_queue_new(options, &m.queues[q], err));
    return mp_link_probe_all(&probe, out, err);
}
