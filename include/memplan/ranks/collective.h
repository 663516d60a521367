/* collective.h - the record of the data that a node exchanges with other ranks, and the traffic of a training step.
 *
 * The functions that build a rank's graph write one record per communicating node. Costs, traffic, the executor and reports
 * read the record; none of them infers a collective from a name, a phase or a channel. A record has one leg per collective. A
 * leg after a reduce-scatter runs over this rank's part of the tensors.
 *
 * Example: a bucket of 4,000 bytes of gradients with dp=2,shard=4,zero=1 has two legs. The reduce-scatter over 4 ranks sends
 * 3,000 bytes. The all-reduce over 2 ranks has 1,000 bytes, and sends 1,000.
 *
 *     // given: const mp_graph *graph; const mp_step *steps; size_t n
 *     mp_rank_traffic traffic;
 *     mp_traffic_of(graph, steps, n, 1, NULL, &traffic); // one micro-batch per training step
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/ranks/mesh.h"
#include "memplan/ranks/network.h"

enum { MP_LEGS_MAX = 3 };

/* One collective of a record. */
typedef struct mp_collective_leg {
    mp_collective kind;
    mp_dim dim;      /* dimension of the mesh along which the collective runs */
    int64_t n_ranks; /* number of ranks in the collective */
    int64_t bytes;   /* bytes of the whole tensors */
    double seconds;
} mp_collective_leg;

/* The collectives of one run of a node, or its message to or from a neighbouring pipeline stage. */
typedef struct mp_collective_record {
    size_t n_legs; /* the legs run in this order; 0: the node exchanges no data */
    mp_collective_leg legs[MP_LEGS_MAX];
    bool once;     /* true: the node runs once per training step; false: once per micro-batch */
    bool receives; /* true: the node receives a message, and sends nothing. The kind of its leg is MP_SEND */
    int member;    /* for a sum over the stages that hold a parameter: position of this rank among these stages. -1, for all
                      other records: the position is the one along the leg's dimension of the mesh */
    /* bytes of an element: each rank's part consists of whole elements. 0: the element type of the parameters */
    int64_t element_bytes;
    /* the storages with the whole tensors, and with this rank's parts. parts NULL: the parts are inside the whole tensors.
     * wholes NULL: the operator exchanges values that have no storage. Both lists are NULL in graphs read from a file */
    size_t n_moved;
    const int *wholes, *parts;
} mp_collective_record;

/* The data that one rank sends in a training step. */
typedef struct mp_rank_traffic {
    size_t n_collectives; /* number of runs of communicating nodes, without receives */
    int64_t sent_bytes;
    double seconds; /* sum of the seconds of all collectives, as if none overlapped with compute */
} mp_rank_traffic;

/* The position of a rank in its mesh, for exact bytes: parts of tensors can differ by some elements between ranks. */
typedef struct mp_traffic_rank {
    int64_t index[MP_N_DIMS];
    int64_t element_bytes; /* bytes of an element of a parameter */
} mp_traffic_rank;

struct mp_graph;
struct mp_step;

/* Computes the traffic of a training step whose micro-batches each run steps[0..n). n_passes is the number of micro-batches per
 * training step (gradient accumulation, or a pipeline), at least 1. rank NULL: the mean over the ranks of each collective.
 * Otherwise the exact bytes of this rank. Copies between memory tiers send nothing to other ranks. O(n + lengths of the moved
 * lists). */
void mp_traffic_of(const struct mp_graph *graph, const struct mp_step *steps, size_t n, int64_t n_passes,
                   const mp_traffic_rank *rank, mp_rank_traffic *out);
