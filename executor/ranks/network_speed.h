/* network_speed.h - measures collectives between the started ranks, with the code that a training uses. */
#pragma once

#include "executor/ranks/collectives.h"
#include "memplan/ranks/network.h"

enum { MP_NETWORK_LEAST = 4 << 10, MP_NETWORK_SIZES = 6, MP_NETWORK_KINDS = 5, MP_NETWORK_REPEATS = 15 };

/* Times of one collective for several message sizes: first MP_NETWORK_LEAST bytes, then each time four times as many. Each
 * time is the median, over MP_NETWORK_REPEATS runs, of the slowest rank's time. latency_seconds (per message) and
 * bytes_per_second are fitted by the formulas of network.h. */
typedef struct mp_collective_speed {
    mp_collective collective;
    double seconds[MP_NETWORK_SIZES];
    double latency_seconds, bytes_per_second;
} mp_collective_speed;

typedef struct mp_network_speed {
    int n_ranks, n_here; /* n_ranks: number of all ranks; n_here: number of ranks on this machine */
    mp_collective_speed kinds[MP_NETWORK_KINDS];
    /* latency and rate of the network, fitted to the times of all measured collectives together */
    double latency_seconds, bytes_per_second;
} mp_network_speed;

static inline int64_t mp_network_bytes(int size)
{
    return (int64_t)MP_NETWORK_LEAST << 2 * size;
}

/* Measures all-reduce, reduce-scatter, all-gather, broadcast, and a send to the next rank. With `fast`, the network library
 * sums in its own order; otherwise sums are in the order of the ranks. All ranks call this function and get the same result.
 * MP_INVALID: there is only one rank. MP_IO: an exchange failed, or three measurements gave no positive rate. MP_NOMEM. */
mp_status mp_network_measure(mp_communicator *world, const mp_backend *backend, bool fast, double timeout,
                             mp_network_speed *out, mp_error *err);
/* Returns in *slowest the maximum of the times that n ranks report. MP_IO: a value is not a valid time. */
mp_status mp_network_slowest(const double *all, int n, double *slowest, mp_error *err);
