/* pipeline.h - the training graph of one pipeline rank: its stages, sends and receives.
 *
 * The network is cut between blocks (planner/parallel/loads.h) into stages. A rank's graph contains the nodes of its stages for
 * one micro-batch. Nodes on the channel "network" receive activations from earlier stages, send activations to later stages,
 * and exchange gradients in the opposite direction. Values that depend only on parameters, such as casts, are computed on every
 * rank that reads them. If several ranks share a parameter, such as a tied embedding, its gradient is summed over these ranks,
 * and each rank updates its own copy.
 *
 * rank.h covers the memory that the other micro-batches hold.
 *
 *     // given: const mp_graph *whole; const mp_ranks *ranks; mp_pipeline_shape shape; mp_error *err
 *     const mp_pipeline_request request = {.graph = whole, .ranks = ranks, .shape = shape};
 *     mp_pipeline *pipeline = NULL;
 *     mp_rank rank;
 *     MP_CHECK(mp_pipeline_new(&request, &pipeline, err));
 *     MP_CHECK(mp_pipeline_rank_graph(pipeline, 0, &rank, err));  // then mp_graph_exchange(rank.graph, ...) for dp and shard
 *     mp_rank_free(&rank);
 *     mp_pipeline_free(pipeline);
 */
#pragma once

#include "memplan/ranks/rank.h"

typedef struct mp_pipeline_request {
    const mp_graph *
        graph; /* finished graph of the whole network for one device and one micro-batch, without collectives of dp and shard */
    const mp_ranks *ranks; /* mesh.pp equals the shape's n_ranks */
    mp_pipeline_shape shape;
    int64_t memory_bytes; /* memory limit per rank in bytes. A stage that exceeds the limit gives blocks to its neighbours. 0:
                             no limit */
    const int *begins; /* per stage: index of its first block, ascending from 0. NULL: the cuts minimise the time of the slowest
                          stage */
    bool is_run; /* true: one process per rank will execute the graphs, each with its own memory (docs/internals/ranks.md).
                    Three rules then apply. Sent activations stay allocated until the next rank has received them. A micro-batch
                    does not share computed values with other micro-batches. Sums over ranks have a fixed summation order */
} mp_pipeline_request;

/* A network that is cut into stages, and the data flow between the stages. */
typedef struct mp_pipeline {
    mp_pool *pool; /* memory pool that owns this struct and all arrays */
    const mp_graph *graph;
    const mp_ranks *ranks;
    mp_pipeline_shape shape;
    int n_blocks, n_stages;
    int *begins; /* per stage: index of its first block; one further element holds n_blocks */
    int *stage;  /* per node: the stage that runs it; -1: an update, or a node of no stage: each rank that reads its result runs
                    it */
    struct mp_flow *flow;
    bool is_run; /* copy of mp_pipeline_request.is_run; true: the graphs will be executed */
} mp_pipeline;

/* Cuts a network into stages. Release *out with mp_pipeline_free (NULL is allowed) before graph and ranks. MP_INVALID: as
 * mp_schedule_check; or there are more stages than blocks, or `begins` does not ascend. MP_UNSUPPORTED: a stage needs a
 * gradient from a later stage that itself needs a result of this stage. Other errors as mp_load_of. MP_NOMEM. */
mp_status mp_pipeline_new(const mp_pipeline_request *request, mp_pipeline **out, mp_error *err);
void mp_pipeline_free(mp_pipeline *pipeline);
MP_OWNER(mp_pipeline_free, mp_pipeline)

/* Builds and finishes the graph of a rank. The graph does not yet include the memory of other micro-batches. Release *out
 * with mp_rank_free, which also releases the graph. If the caller takes the graph, it sets out->graph to NULL. MP_NOMEM.
 * O(graph * chunks). */
mp_status mp_pipeline_rank_graph(const mp_pipeline *pipeline, int rank, mp_rank *out, mp_error *err);
