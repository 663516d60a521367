/* network.h - the time of collectives between devices on a network of two levels: within a node, and between nodes.
 *
 * A collective over n ranks moves S bytes, the size of the whole tensor: the result of an all-gather, the input of a
 * reduce-scatter. B is the bandwidth in bytes/s, and a the latency in seconds per message:
 * ring all-reduce 2 (n-1) a + 2 (n-1)/n S/B; reduce-scatter, all-gather and all-to-all half of the above
 *     tree           all-reduce and broadcast 2 log2(n) a + 2 S/B
 *     two levels     reduce-scatter within the node, all-reduce of the parts between nodes, all-gather within the node
 *
 * Sources: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in MPICH". For the two
 * trees: Sanders, Speck, Traeff 2009.
 *
 * A flat ring over several nodes with l ranks each uses l parallel links between nodes. Its rate is the minimum of one device's
 * rate within the node and l devices' rate between nodes. MP_ALGORITHM_AUTO uses the fastest of these algorithms.
 *
 *     // given: mp_error *err
 *     mp_interconnect network;
 *     MP_CHECK(mp_network_read("nvlink4+ib400", &network, err));
 *     const mp_rank_group group = {.n = 16, .stride = 1};
 *     const double seconds = mp_collective_seconds(&network, MP_ALL_REDUCE, MP_ALGORITHM_AUTO, group, 1 << 28);
 *     printf("%.3f s\n", seconds);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* One level of a network: a row of networks.def. Rates are measured for large collectives, per device and in one direction. */
typedef struct mp_fabric {
    const char *name;
    const char *title; /* description for reports, such as "NVLink 4 and NVSwitch, 8 devices" */
    int devices;       /* number of devices within a node; 0: this level connects nodes */
    double bytes_per_second, latency_seconds;
} mp_fabric;

typedef struct mp_interconnect {
    mp_fabric inside, across;
    double
        slowdown; /* factor by which compute slows down during a collective, minus 1, as stated by the user; 0: no slowdown */
} mp_interconnect;

/* A group of n ranks: k, k + stride, k + 2 stride, ... The innermost dimension of a mesh fills the nodes first. */
typedef struct mp_rank_group {
    int64_t n, stride;
} mp_rank_group;

typedef enum mp_collective {
    MP_ALL_REDUCE,
    MP_REDUCE_SCATTER,
    MP_ALL_GATHER,
    MP_ALL_TO_ALL,
    MP_BROADCAST,
    MP_SEND, /* a message from each rank k to rank k + stride */
    MP_N_COLLECTIVES
} mp_collective;
const char *mp_collective_name(mp_collective collective); /* "all-reduce" */
int mp_collective_find(const char *name); /* returns the collective with this name; -1: no collective has this name */

typedef enum mp_algorithm {
    MP_ALGORITHM_AUTO,
    MP_ALGORITHM_RING,
    MP_ALGORITHM_TREE,
    MP_ALGORITHM_TWO_LEVELS,
    MP_N_ALGORITHMS
} mp_algorithm;
const char *mp_algorithm_name(mp_algorithm algorithm); /* "two-levels" */
int mp_algorithm_find(const char *name); /* returns the algorithm with this name; -1: no algorithm has this name */

/* Access to the rows of networks.def, in the order of the file. The search by name ignores case, spaces and dashes. */
size_t mp_fabric_count(void);
const mp_fabric *mp_fabric_row(size_t k); /* k < mp_fabric_count() */
const mp_fabric *
mp_fabric_find(const char *name); /* returns the level of a network with this name; NULL: no row of networks.def has it */

/* Reads a network such as "nvlink4+ib400": the level within nodes, then the level between nodes. If only one level is given,
 * it connects all devices. An optional suffix is ",slowdown=0.19". MP_INVALID: unknown level, two levels of the same kind,
 * or a slowdown outside 0 to 10. O(rows of networks.def). */
mp_status mp_network_read(const char *text, mp_interconnect *out, mp_error *err);
/* Returns the usual network between devices of this type (devices.def), such as "nvlink4+ib400". Never NULL. */
const char *mp_network_of_device(const char *device);

/* Returns the seconds of a collective over `bytes` bytes; 0 for a group of one rank. If the algorithm does not apply to this
 * collective, AUTO is used. O(1). */
double mp_collective_seconds(const mp_interconnect *network, mp_collective collective, mp_algorithm algorithm,
                             mp_rank_group group, int64_t bytes);
/* Returns the bytes that one rank sends in a ring collective of n ranks. O(1). */
int64_t mp_collective_sent_bytes(mp_collective collective, int64_t n, int64_t bytes);
