/* pipeline_flow.h - what flows between the stages of a pipeline, the same for every rank. */
#pragma once

#include "memplan/ranks/pipeline.h"

/* Where a storage crosses: from stage q to q + 1, or its gradient back, for first <= q < last. */
typedef struct mp_stage_crossing {
    int first, last;
    bool is_backward;
} mp_stage_crossing;

typedef struct mp_flow {
    const mp_graph *graph;
    bool *needed;                 /* per stage and node */
    bool *for_weights;            /* per node: it makes gradients of parameters alone, or reads what such a node makes */
    bool *is_of_rank;             /* per storage: it is there once per rank, not once per chunk */
    mp_stage_crossing *crossings; /* per storage */
    int *holders;                 /* per parameter: ranks that read it; 0: none */
    int *first, *last;            /* per parameter: the first and the last of them */
    int *summed;                  /* per gradient of a parameter of several ranks: that parameter; -1: none */
} mp_flow;

/* Fills in pipeline->flow, once it is known which node runs in which stage. MP_NOMEM. O(graph * stages). */
mp_status mp_flow_new(mp_pipeline *pipeline, mp_pool *pool, mp_error *err);

/* True if a node runs in a stage: those that run everywhere do where they are read. O(1). */
static inline bool mp_flow_needs(const mp_flow *flow, int stage, int node)
{
    return flow->needed[(size_t)stage * flow->graph->n_nodes + (size_t)node];
}
