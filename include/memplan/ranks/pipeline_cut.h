/* pipeline_cut.h - cuts a network between blocks (planner/parallel/loads.h) into the stages of a pipeline.
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

#include "memplan/ranks/pipeline.h"

typedef struct mp_pipeline_request {
    const mp_graph *
        graph; /* finished graph of the whole network for one device and one micro-batch, without collectives of dp and shard */
    const mp_ranks *ranks; /* mesh.pp equals the shape's n_ranks */
    mp_pipeline_shape shape;
    int64_t memory_bytes; /* memory limit per rank in bytes. A stage that exceeds the limit gives blocks to its neighbours. 0:
                             no limit */
    const int *begins; /* per stage: index of its first block, ascending from 0. NULL: the cuts minimise the time of the slowest
                          stage */
    /* true: one process per rank will execute the graphs, each with its own memory (docs/internals/ranks.md). Three rules then
     * apply. Sent activations stay allocated until the next rank has received them. A micro-batch does not share computed
     * values with other micro-batches. Sums over ranks have a fixed summation order */
    bool for_execution;
} mp_pipeline_request;

/* Cuts a network into stages. Release *out with mp_pipeline_free (NULL is allowed) before graph and ranks. MP_INVALID: as
 * mp_schedule_check; or there are more stages than blocks, or `begins` does not ascend. MP_UNSUPPORTED: a stage needs a
 * gradient from a later stage that itself needs a result of this stage. Other errors as mp_load_of. MP_NOMEM. */
mp_status mp_pipeline_new(const mp_pipeline_request *request, mp_pipeline **out, mp_error *err);
