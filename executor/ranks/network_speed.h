/* network_speed.h - measures collectives between the ranks that were started, with the code that runs those of a training. */
#pragma once

#include "executor/ranks/collectives.h"
#include "memplan/ranks/network.h"

enum { MP_NETWORK_LEAST = 4 << 10, MP_NETWORK_SIZES = 6, MP_NETWORK_KINDS = 5, MP_NETWORK_REPEATS = 15 };

/* The seconds of one collective, in sizes from MP_NETWORK_LEAST on, each four times the one before; the median of the slowest
 * rank. A line through them: `latency_seconds` of a message and bytes per second, as the formulas of network.h have them. */
typedef struct mp_collective_speed {
    mp_collective collective;
    double seconds[MP_NETWORK_SIZES];
    double latency_seconds, bytes_per_second;
} mp_collective_speed;

typedef struct mp_network_speed {
    int n_ranks, n_here; /* of them on this machine */
    mp_collective_speed kinds[MP_NETWORK_KINDS];
    double latency_seconds, bytes_per_second; /* the line that is nearest to all kinds */
} mp_network_speed;

static inline int64_t mp_network_bytes(int size)
{
    return (int64_t)MP_NETWORK_LEAST << 2 * size;
}

/* Measures: all-reduce, reduce-scatter and all-gather (sums in the order of the ranks, or `fast`), broadcast, and a send to the
 * next rank. All ranks call it, and have the same answer. MP_INVALID: there is one rank. MP_NOMEM, MP_IO. */
mp_status mp_network_measure(mp_communicator *world, const mp_backend *backend, bool fast, double timeout,
                             mp_network_speed *out, mp_error *err);
/* Gives the most of the seconds that n ranks say a collective has taken them. MP_IO: what one has sent are no seconds. */
mp_status mp_network_slowest(const double *all, int n, double *slowest, mp_error *err);
