/* pipeline.h - the training graph of one pipeline rank: its stages, sends and receives.
 *
 * pipeline_cut.h cuts the network into stages. A rank's graph contains the nodes of its stages for
 * one micro-batch. Nodes on the channel "network" receive activations from earlier stages, send activations to later stages,
 * and exchange gradients in the opposite direction. Values that depend only on parameters, such as casts, are computed on every
 * rank that reads them. If several ranks share a parameter, such as a tied embedding, its gradient is summed over these ranks,
 * and each rank updates its own copy.
 *
 * rank.h covers the memory that the other micro-batches hold.
 *
 *     // given: const mp_pipeline *pipeline; mp_error *err
 *     mp_rank rank;
 *     MP_CHECK(mp_pipeline_rank_graph(pipeline, 0, &rank, err));  // then mp_graph_exchange(rank.graph, ...) for dp and shard
 *     mp_rank_free(&rank);
 */
#pragma once

#include "memplan/ranks/rank.h"

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
    bool for_execution; /* copy of mp_pipeline_request.for_execution; true: the graphs will be executed */
} mp_pipeline;

/* Releases a pipeline and all its arrays. NULL is allowed. */
void mp_pipeline_free(mp_pipeline *pipeline);
MP_OWNER(mp_pipeline_free, mp_pipeline)

/* Builds and finishes the graph of a rank. The graph does not yet include the memory of other micro-batches. Release *out
 * with mp_rank_free, which also releases the graph. If the caller takes the graph, it sets out->graph to NULL. MP_NOMEM.
 * O(graph * chunks). */
mp_status mp_pipeline_rank_graph(const mp_pipeline *pipeline, int rank, mp_rank *out, mp_error *err);
