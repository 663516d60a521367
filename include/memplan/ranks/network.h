/* network.h - what collectives between devices cost, on a network of two levels: within a node, and between nodes.
 *
 * A collective over n ranks moves S bytes: the size of the whole tensor (of an all-gather its result, of a reduce-scatter its
 * input). With B bytes/s and a latency of a seconds per message:
 *
 *     ring           all-reduce 2 (n-1) a + 2 (n-1)/n S/B; reduce-scatter, all-gather and all-to-all half of it
 *     tree           all-reduce and broadcast 2 log2(n) a + 2 S/B
 *     two levels     reduce-scatter within the node, all-reduce of the parts between nodes, all-gather within the node
 *     server         parameter server: one rank takes S from each other one and sends S back: 2 a + 2 (n-1) S/B
 *
 * (Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH"; Sanders, Speck, Traeff
 * 2009 for the two trees.) A flat ring that leaves nodes of l ranks each has l rails: its rate is the lower one of a device
 * within the node, and of l devices between nodes. Without an algorithm the cheapest but the server is taken.
 *
 *     mp_interconnect network;
 *     MP_CHECK(mp_network_read("nvlink4+ib400", &network, err));
 *     const mp_rank_group group = {.n = 16, .stride = 1};
 *     const double seconds = mp_collective_seconds(&network, MP_ALL_REDUCE, MP_ALGORITHM_AUTO, group, 1 << 28);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* One level of a network, a row of networks.def. Rates are what large collectives reach on each device, one way. */
typedef struct mp_fabric {
    const char *name;
    const char *title; /* "NVLink 4 and NVSwitch, 8 devices" */
    int devices;       /* within a node; 0: it joins nodes */
    double bytes_per_second, latency_seconds;
} mp_fabric;

typedef struct mp_interconnect {
    mp_fabric inside, across;
    double slowdown; /* by what share compute takes longer while a collective runs beside it, as stated; 0: not at all */
} mp_interconnect;

/* Ranks k, k + stride, ..., of a mesh whose innermost dimension fills nodes first. */
typedef struct mp_rank_group {
    int64_t n, stride;
} mp_rank_group;

typedef enum mp_collective {
    MP_ALL_REDUCE,
    MP_REDUCE_SCATTER,
    MP_ALL_GATHER,
    MP_ALL_TO_ALL,
    MP_BROADCAST,
    MP_SEND, /* from a rank to the one `stride` further */
    MP_N_COLLECTIVES
} mp_collective;
const char *mp_collective_name(mp_collective collective); /* "all-reduce" */
int mp_collective_find(const char *name);                 /* -1: none */

typedef enum mp_algorithm {
    MP_ALGORITHM_AUTO,
    MP_ALGORITHM_RING,
    MP_ALGORITHM_TREE,
    MP_ALGORITHM_TWO_LEVELS,
    MP_ALGORITHM_SERVER,
    MP_N_ALGORITHMS
} mp_algorithm;
const char *mp_algorithm_name(mp_algorithm algorithm); /* "two-levels" */
int mp_algorithm_find(const char *name);               /* -1: none */

/* All rows, in the order of networks.def; by name, in which case, spaces and dashes do not matter. */
size_t mp_fabric_count(void);
const mp_fabric *mp_fabric_row(size_t k);          /* k < mp_fabric_count() */
const mp_fabric *mp_fabric_find(const char *name); /* NULL: none */

/* Reads "nvlink4+ib400", a level within nodes and one between them; one of the two alone joins all devices. Behind them may
 * stand
 * ",slowdown=0.19". MP_INVALID: no such row, two of the same kind, or no share of 0 to 10. O(rows). */
mp_status mp_network_read(const char *text, mp_interconnect *out, mp_error *err);
/* Returns the network that a device of devices.def usually comes with, "nvlink4+ib400". Never NULL. */
const char *mp_network_of_device(const char *device);

/* Returns the seconds of a collective, 0 for a group of one. An algorithm that the collective does not have costs what AUTO
 * does. O(1). */
double mp_collective_seconds(const mp_interconnect *network, mp_collective collective, mp_algorithm algorithm,
                             mp_rank_group group, int64_t bytes);
/* Returns the bytes that a rank sends for it with a ring. O(1). */
int64_t mp_collective_sent_bytes(mp_collective collective, int64_t n, int64_t bytes);
