/* pipeline.h - the training graph of one rank of a pipeline: its stages, what it receives and sends, and what waits there.
 *
 * The network is cut between blocks (planner/parallel/loads.h) into stages. A rank's graph has the nodes of its stages for one
 * micro-batch, with nodes on the channel "network" that receive what a stage reads of those before it, send what later ones
 * read, and do the same with gradients. What depends on parameters alone, such as their casts, is computed wherever it is read.
 * A parameter of several ranks, as a tied embedding, has its gradient summed over them, and each updates its own.
 *
 * What other micro-batches hold meanwhile is in rank.h.
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
    const mp_graph *graph; /* of one device and one micro-batch, finished, without exchanges of dp and shard */
    const mp_ranks *ranks; /* mesh.pp is the shape's n_ranks */
    mp_pipeline_shape shape;
    int64_t memory_bytes; /* of a rank: a stage that is over it hands blocks to its neighbours; 0: no matter */
    const int *begins;    /* the first block of each stage, ascending from 0; NULL: the slowest stage as fast as can be */
    bool is_run; /* by processes of which each has its rank's memory alone (docs/internals/ranks.md): activations that are sent
                    have room until the next rank takes them, a micro-batch has for itself all that is computed
                    while it runs, and sums over ranks come in one order */
} mp_pipeline_request;

/* Where a network is cut, and what flows between its stages. */
typedef struct mp_pipeline {
    mp_pool *pool; /* owns this and all arrays */
    const mp_graph *graph;
    const mp_ranks *ranks;
    mp_pipeline_shape shape;
    int n_blocks, n_stages;
    int *begins; /* per stage, and n_blocks at the end */
    int *stage;  /* per node: its stage; -1: an update, or it runs wherever it is read */
    struct mp_flow *flow;
    bool is_run; /* as requested */
} mp_pipeline;

/* Cuts a network. *out is released with mp_pipeline_free (NULL is fine) before graph and ranks. MP_INVALID: as
 * mp_schedule_check; more stages than blocks; begins that are not ascending. MP_UNSUPPORTED: a node of an early stage waits for
 * a gradient that a later one would need from it. As mp_load_of; MP_NOMEM. */
mp_status mp_pipeline_new(const mp_pipeline_request *request, mp_pipeline **out, mp_error *err);
void mp_pipeline_free(mp_pipeline *pipeline);
MP_OWNER(mp_pipeline_free, mp_pipeline)

/* Builds the graph of a rank, finished; nothing is held yet. *out is released with mp_rank_free, its graph too unless it was
 * taken (set to NULL). MP_NOMEM. O(graph * chunks). */
mp_status mp_pipeline_rank_graph(const mp_pipeline *pipeline, int rank, mp_rank *out, mp_error *err);
