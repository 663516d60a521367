/* pipeline.h - the training graph of one pipeline rank: its stages, sends and receives.
 *
 * The network is cut between blocks (planner/parallel/loads.h) into stages. A rank's graph contains the nodes of its stages for
 * one micro-batch. Nodes on the channel "network" receive activations from earlier stages, send activations to later stages,
 * and do the same for gradients. Values that depend only on parameters, such as casts, are computed on every rank that reads
 * them. If several ranks share a parameter, such as a tied embedding, its gradient is summed over these ranks, and each rank
 * updates its own copy.
 *
 * rank.h covers the memory that the other micro-batches hold.
 *
 *     const mp_pipeline_request request = {.graph = whole, .ranks = &ranks, .shape = shape};
 *     MP_CHECK(mp_pipeline_new(&request, &pipeline, err));
 *     MP_CHECK(mp_pipeline_rank_graph(pipeline, 0, &rank, err));  // then mp_graph_exchange(rank.graph, ...) for dp and shard
 *     mp_rank_free(&rank);
 *     mp_pipeline_free(pipeline);
 */
#pragma once

#include "memplan/ranks/rank.h"

typedef struct mp_pipeline_request {
    const mp_graph *graph; /* finished graph of one device and one micro-batch, without exchanges of dp and shard */
    const mp_ranks *ranks; /* mesh.pp equals the shape's n_ranks */
    mp_pipeline_shape shape;
    int64_t memory_bytes; /* memory limit per rank: a stage above it gives blocks to its neighbours; 0: no limit */
    const int *begins;    /* first block of each stage, ascending from 0; NULL: minimise the time of the slowest stage */
    bool is_run; /* the graph will be executed by one process per rank, each with its own memory (docs/internals/ranks.md). Sent
                    activations then stay allocated until the next rank has received them, a micro-batch does not share computed
                    values with others, and sums over ranks have a fixed summation order */
} mp_pipeline_request;

/* The cuts of a network, and the data flow between its stages. */
typedef struct mp_pipeline {
    mp_pool *pool; /* memory pool that owns this struct and all arrays */
    const mp_graph *graph;
    const mp_ranks *ranks;
    mp_pipeline_shape shape;
    int n_blocks, n_stages;
    int *begins; /* index of the first block of each stage; one more element holds n_blocks */
    int *stage;  /* per node: the stage that runs it; -1: an update, or a node that runs on every rank that reads its result */
    struct mp_flow *flow;
    bool is_run; /* copy of mp_pipeline_request.is_run: the graph will be executed */
} mp_pipeline;

/* Cuts a network into stages. Release *out with mp_pipeline_free (NULL is allowed) before graph and ranks. MP_INVALID: as
 * mp_schedule_check; more stages than blocks; begins that do not ascend. MP_UNSUPPORTED: a node of an early stage waits for a
 * gradient from a later stage that depends on this node. Other errors as mp_load_of. MP_NOMEM. */
mp_status mp_pipeline_new(const mp_pipeline_request *request, mp_pipeline **out, mp_error *err);
void mp_pipeline_free(mp_pipeline *pipeline);
MP_OWNER(mp_pipeline_free, mp_pipeline)

/* Builds and finishes the graph of a rank. It does not yet include memory of other micro-batches. Release *out with
 * mp_rank_free. This also releases its graph, unless the caller has taken the graph and set the pointer to NULL. MP_NOMEM.
 * O(graph * chunks). */
mp_status mp_pipeline_rank_graph(const mp_pipeline *pipeline, int rank, mp_rank *out, mp_error *err);
