/* pipeline_flow.h - the tensors that flow between the stages of a pipeline. The result is the same for every rank. */
#pragma once

#include "memplan/ranks/pipeline.h"

/* The boundaries that a storage crosses: it is sent from stage q to q + 1 for first <= q < last. If is_backward, it is a
 * gradient and is sent from q + 1 to q. */
typedef struct mp_stage_crossing {
    int first, last;
    bool is_backward;
} mp_stage_crossing;

typedef struct mp_flow {
    const mp_graph *graph;
    bool *needed;                 /* per stage and node: the node runs in the stage */
    bool *for_weights;            /* per node: it computes weight gradients alone, or depends on such a node */
    bool *is_of_rank;             /* per storage: one copy per rank; false: one copy per chunk */
    mp_stage_crossing *crossings; /* per storage: the stage boundaries that it crosses */
    int *holders;                 /* per parameter: number of ranks that read it; 0: none */
    int *first, *last;            /* per parameter: the first and the last rank that read it */
    int *summed; /* per gradient: its parameter, if several ranks read this parameter and so sum the gradient; otherwise -1 */
} mp_flow;

/* Fills in pipeline->flow. Precondition: every node has a stage. MP_NOMEM. O(graph * stages). */
mp_status mp_flow_new(mp_pipeline *pipeline, mp_pool *pool, mp_error *err);

/* True if a stage runs a node. A node without a stage of its own runs in every stage that reads its output. O(1). */
static inline bool mp_flow_needs(const mp_flow *flow, int stage, int node)
{
    return flow->needed[(size_t)stage * flow->graph->n_nodes + (size_t)node];
}
