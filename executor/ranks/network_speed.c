/* network_speed.c - measures collectives of several sizes, and fits latency and rate to the times. */
#include "executor/ranks/network_speed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/base/clock.h"
#include "executor/ranks/exchanges.h"
#include "executor/ranks/peers.h"

/* Limits for the seconds of a collective: the clock resolves no shorter time, and a timeout ends longer ones. */
#define LEAST_SECONDS 1e-9
#define MOST_SECONDS 1e6

typedef struct probe {
    mp_collectives collectives;
    mp_shard_view piece;
    char *values, *other, *workspace;
    mp_collective_work work;
    mp_pool *pool;
} probe;

enum { TRIES = 3 };
static const char BUSY[] =
    "the seconds of %s do not grow with the bytes, because this machine or its network is busy; measure again";
static const mp_collective kinds[MP_NETWORK_KINDS] = {MP_ALL_REDUCE, MP_REDUCE_SCATTER, MP_ALL_GATHER, MP_BROADCAST, MP_SEND};

static void probe_free(probe *p)
{
    mp_pool_free(p->pool);
}

static mp_status prepare(probe *p, mp_error *err)
{
    const mp_communicator *world = p->collectives.world;
    const int64_t most = mp_network_bytes(MP_NETWORK_SIZES - 1);
    MP_ENSURE(p->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    p->values = mp_pool_alloc(p->pool, (size_t)most, 1);
    p->other = mp_pool_alloc(p->pool, (size_t)most, 1);
    p->workspace = mp_pool_alloc(p->pool, (size_t)mp_leg_workspace(MP_REDUCE_SCATTER, false, world->n, most / 4, 4), 1);
    p->work.requests = mp_pool_alloc(p->pool, 2 * (size_t)world->n, sizeof *p->work.requests);
    MP_ENSURE(!mp_pool_failed(p->pool), err, MP_NOMEM, "out of memory");
    return MP_OK;
}

static void add_leg(probe *p, mp_collective kind)
{
    const mp_communicator *world = p->collectives.world;
    p->work.legs[p->work.n_legs++] = (mp_leg){.kind = kind,
                                              .group = {world->n, world->rank, 0, 1},
                                              .dtype = MP_DTYPE_FLOAT,
                                              .n_pieces = 1,
                                              .pieces = &p->piece,
                                              .workspace = p->workspace};
}

static mp_status wait(probe *p, mp_awaited *messages, int n, mp_error *err)
{
    mp_communicator *world = p->collectives.world;
    mp_patience patience = mp_patience_begin(world, p->collectives.timeout);
    for (bool is_over = false; !is_over;) {
        bool moved = false;
        is_over = true;
        for (int k = 0; k < n; k++) {
            bool done = true;
            const bool is_open = messages[k].message;
            if (is_open) MP_CHECK(mp_awaited_test(world, &messages[k], &done, p->work.name, err));
            moved |= is_open && done;
            is_over &= done;
        }
        if (!is_over) MP_CHECK(mp_patience_go_on(&patience, moved, -1, p->work.name, err));
    }
    return MP_OK;
}

static mp_status run_collective(probe *p, mp_collective kind, int64_t bytes, mp_error *err)
{
    mp_communicator *world = p->collectives.world;
    mp_awaited messages[2] = {{.peer = -1, .bytes = -1}, {.peer = -1, .bytes = -1}};
    int64_t ticket;
    p->work.name = mp_collective_name(kind);
    if (kind == MP_BROADCAST) {
        MP_CHECK(world->broadcast(world, p->values, bytes, 0, &messages[0].message, err));
        return wait(p, messages, 1, err);
    }
    if (kind == MP_SEND) {
        const int before = (world->rank + world->n - 1) % world->n;
        messages[0] = (mp_awaited){.peer = before, .bytes = bytes};
        MP_CHECK(world->receive(world, p->other, bytes, before, 0, &messages[0].message, err));
        MP_CHECK(world->send(world, p->values, bytes, (world->rank + 1) % world->n, 0, &messages[1].message, err));
        return wait(p, messages, 2, err);
    }
    const int64_t n = bytes / (int64_t)sizeof(float);
    p->piece = (mp_shard_view){.whole = p->values, .n = n};
    p->piece.part = p->values + mp_rank_part(n, world->n) * world->rank * (int64_t)sizeof(float);
    p->work.n_legs = 0;
    if (kind == MP_ALL_REDUCE && p->collectives.fast) add_leg(p, MP_ALL_REDUCE);
    if (kind == MP_REDUCE_SCATTER || (kind == MP_ALL_REDUCE && !p->collectives.fast)) add_leg(p, MP_REDUCE_SCATTER);
    if (kind == MP_ALL_GATHER || (kind == MP_ALL_REDUCE && !p->collectives.fast)) add_leg(p, MP_ALL_GATHER);
    MP_CHECK(mp_collectives_issue(&p->collectives, &p->work, &ticket, err));
    return mp_collectives_wait(&p->collectives, ticket, err);
}

static int by_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

mp_status mp_network_slowest(const double *all, int n, double *slowest, mp_error *err)
{
    *slowest = LEAST_SECONDS;
    for (int r = 0; r < n; r++) {
        MP_ENSURE(all[r] >= 0 && all[r] < MOST_SECONDS, err, MP_IO, "rank %d of %d has not sent the seconds of a collective", r,
                  n);
        *slowest = fmax(*slowest, all[r]);
    }
    return MP_OK;
}

/* Measures the seconds of the slowest rank. Repeats the measurement several times and returns the median. */
static mp_status time_runs(probe *p, mp_collective kind, int64_t bytes, double *all, double *median, mp_error *err)
{
    mp_communicator *world = p->collectives.world;
    double seconds[MP_NETWORK_REPEATS];
    MP_CHECK(run_collective(p, kind, bytes, err)); /* warm-up */
    for (int k = 0; k < MP_NETWORK_REPEATS; k++) {
        double own = 0;
        memset(p->values, k + 1, (size_t)bytes); /* writing the buffer puts it into this core's cache, as in a training, where
                                                    gradients have just been computed */
        MP_CHECK(mp_communicator_exchange(world, &own, sizeof own, all, p->collectives.timeout, "measuring", err));
        const double from = mp_clock_now();
        MP_CHECK(run_collective(p, kind, bytes, err));
        own = mp_clock_now() - from;
        MP_CHECK(mp_communicator_exchange(world, &own, sizeof own, all, p->collectives.timeout, "measuring", err));
        MP_CHECK(mp_network_slowest(all, world->n, &seconds[k], err));
    }
    qsort(seconds, MP_NETWORK_REPEATS, sizeof *seconds, by_seconds);
    *median = seconds[MP_NETWORK_REPEATS / 2];
    return MP_OK;
}

/* For a collective over n ranks: *messages is the number of consecutive messages, *share the fraction of the bytes that each
 * rank sends (network.h). */
static void factors(mp_collective kind, double n, double *messages, double *share)
{
    const bool twice = kind == MP_ALL_REDUCE;
    *messages = kind == MP_SEND ? 1 : kind == MP_BROADCAST ? ceil(log2(n)) : (twice ? 2 : 1) * (n - 1);
    *share = kind == MP_SEND || kind == MP_BROADCAST ? *messages : (twice ? 2 : 1) * (n - 1) / n;
}

/* Fits seconds = messages * latency + share * bytes / rate by least squares of the relative errors. False: the seconds do not
 * grow with the bytes, so no rate can be fitted. */
static bool fit(const mp_collective_speed *list, int n, double ranks, double *latency, double *rate)
{
    double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
    for (int k = 0; k < n; k++) {
        double messages, share;
        factors(list[k].collective, ranks, &messages, &share);
        for (int s = 0; s < MP_NETWORK_SIZES; s++) {
            const double t = list[k].seconds[s], a = messages / t, b = share * (double)mp_network_bytes(s) / t;
            aa += a * a;
            ab += a * b;
            bb += b * b;
            a1 += a;
            b1 += b;
        }
    }
    *latency = fmax(0, (a1 * bb - b1 * ab) / (aa * bb - ab * ab));
    *rate = bb / (b1 - *latency * ab);
    return *rate > 0 && isfinite(*rate);
}

/* Times a collective for each size and fits latency and rate. Other programs may disturb short calls, so the measurement is
 * repeated if no rate can be fitted. All ranks fit the same seconds, and therefore repeat together. */
static mp_status measure(probe *p, mp_collective kind, double *all, mp_collective_speed *out, mp_error *err)
{
    bool grows = false;
    out->collective = kind;
    for (int k = 0; k < TRIES && !grows; k++) {
        for (int s = 0; s < MP_NETWORK_SIZES; s++)
            MP_CHECK(time_runs(p, kind, mp_network_bytes(s), all, &out->seconds[s], err));
        grows = fit(out, 1, p->collectives.world->n, &out->latency_seconds, &out->bytes_per_second);
    }
    MP_ENSURE(grows, err, MP_IO, BUSY, mp_collective_name(kind));
    return MP_OK;
}

mp_status mp_network_measure(mp_communicator *world, const mp_backend *backend, bool fast, double timeout,
                             mp_network_speed *out, mp_error *err)
{
    MP_CLEARED_BY(probe_free)
    probe p = {.collectives = {.world = world, .backend = backend, .fast = fast, .timeout = timeout}};
    MP_ENSURE(world->n > 1, err, MP_INVALID, "measuring a network needs two processes or more; run mpirun -n 2 memplan ...");
    MP_CHECK(prepare(&p, err));
    double *all = mp_pool_alloc(p.pool, (size_t)world->n, sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "out of memory");
    *out = (mp_network_speed){.n_ranks = world->n};
    for (int r = 0; r < world->n; r++)
        out->n_here += !strcmp(world->who->list[r].machine, world->who->list[world->rank].machine);
    for (int k = 0; k < MP_NETWORK_KINDS; k++) MP_CHECK(measure(&p, kinds[k], all, &out->kinds[k], err));
    const bool grows = fit(out->kinds, MP_NETWORK_KINDS, world->n, &out->latency_seconds, &out->bytes_per_second);
    MP_ENSURE(grows, err, MP_IO, BUSY, "all collectives");
    return MP_OK;
}
