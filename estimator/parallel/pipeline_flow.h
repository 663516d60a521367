/* pipeline_flow.h - the tensors that are sent between the stages of a pipeline, and the ranks that hold each parameter. Every
 * rank computes this data for all ranks, with the same result. */
#pragma once

#include "memplan/ranks/pipeline.h"

/* The stage boundaries that a storage crosses. An activation is sent from stage q to q + 1 for first <= q < last. A gradient
 * (is_backward) is sent from q + 1 to q. */
typedef struct mp_stage_crossing {
    int first, last;
    bool is_backward;
} mp_stage_crossing;

typedef struct mp_flow {
    const mp_graph *graph;
    bool *needed;      /* per stage and node: true if the node runs in the pipeline stage */
    bool *for_weights; /* per node: true if it only computes weight gradients, or depends on such a node */
    /* per storage: true if a rank holds one copy of it, false if a rank holds one copy per chunk */
    bool *is_of_rank;
    mp_stage_crossing *crossings; /* per storage: the stage boundaries that it crosses */
    int *holders;                 /* per parameter: number of ranks that read it; 0: none */
    int *first, *last;            /* per parameter: the first and the last rank that read it */
    /* per gradient: its parameter, if several ranks read the parameter, so that they must sum the gradient; otherwise -1 */
    int *summed;
} mp_flow;

/* True if a backward node only computes weight gradients, so that no other stage waits for its result. */
bool mp_makes_weights_alone(const mp_graph *graph, const mp_node *node);

/* Sets pipeline->stage and pipeline->flow; the pool owns both. `block`, per node: the block to which it belongs. Precondition:
 * pipeline->begins is set. MP_UNSUPPORTED: a stage needs a gradient from a later stage that itself needs a result of this
 * stage. MP_NOMEM. O(graph size * number of stages). */
mp_status mp_flow_new(mp_pipeline *pipeline, const int *block, mp_pool *pool, mp_error *err);

/* True if a node runs in a stage. A node that is assigned to no stage runs in every stage that reads its output. O(1). */
static inline bool mp_flow_needs(const mp_flow *flow, int stage, int node)
{
    return flow->needed[(size_t)stage * flow->graph->n_nodes + (size_t)node];
}
