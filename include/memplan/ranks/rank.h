/* rank.h - one pipeline rank: the memory that waiting micro-batches hold, and the compute time per micro-batch.
 *
 * While one micro-batch runs, others wait between their forward and backward passes (schedule.h), or for their parameter
 * gradients. The memory of waiting micro-batches is one static storage of the rank's graph, `held`. If this memory differs
 * between chunks, the size of `held` is the minimum. The difference is added to the workspace of the chunk's nodes. The
 * required size of `held` depends on the rank's plan. mp_rank_held_bytes computes it, mp_rank_hold sets it, and mp_rank_check
 * verifies that it suffices for a plan.
 *
 * Under ZB-H1 a stage delays its parameter gradients. A marker node of type "Turn" splits the node list in two. The first part
 * computes the activation gradients for the previous stage. The second part computes the parameter gradients and runs after the
 * backward passes of other micro-batches.
 *
 *     // given: mp_rank *rank; const mp_step *steps; size_t n; int64_t *bytes; mp_error *err
 *     // bytes has an element per chunk
 *     MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
 *     MP_CHECK(mp_rank_held_bytes(rank, steps, n, bytes, err)); // bytes of waiting micro-batches if all run these steps
 *     MP_CHECK(mp_rank_hold(rank, bytes, err));
 *     MP_CHECK(mp_timeline_build(rank->graph, steps, n, &timeline, err)); // its live bytes include waiting micro-batches
 */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/ranks/schedule.h"
#include "memplan/timeline.h"

/* The graph of one pipeline rank for one micro-batch, and the data that links it to the graph of the whole network. */
typedef struct mp_rank {
    mp_graph *graph;
    mp_pipeline_shape shape;
    int rank;
    int *chunk; /* per storage: the chunk of this rank that produces it for a micro-batch; -1: the storage does not belong to
                   one micro-batch */
    size_t n_storages;    /* length of the array `chunk`. Storages with an index from this length on do not belong to one
                             micro-batch */
    int64_t *batch_bytes; /* per chunk: bytes of the inputs that each micro-batch holds from its forward pass on */
    int held;             /* the storage that represents the memory of waiting micro-batches; -1: no micro-batch waits */
    int64_t *held_bytes;  /* per chunk: bytes that waiting micro-batches hold while the chunk runs, as set by mp_rank_hold */
    int turn; /* a storage of 0 bytes that all nodes for delayed parameter gradients read; -1: no gradients are delayed */
    int send_buffer;    /* the storage that keeps sent activations until the next rank has received them; -1: no such storage */
    size_t n_nodes;     /* number of nodes before mp_graph_exchange adds the collectives of dp and shard */
    int *whole_node;    /* per node: its index in the graph of the whole network; -1: the node was added for the pipeline */
    int *whole_storage; /* per storage: its index in the graph of the whole network; -1: the storage was added for the pipeline
                         */
} mp_rank;
void mp_rank_free(mp_rank *rank);

/* Finds the step after which a micro-batch can wait for its backward pass. All forward nodes that run before the first loss
 * or backward step have then run. *at is the index of the next step. MP_NOMEM. O(nodes + n). */
mp_status mp_rank_turn_around(const mp_graph *graph, const mp_step *steps, size_t n, size_t *at, mp_error *err);
/* Adds the gathers of sharded parameters (zero=3) that a pipeline rank repeats to *traffic. Gathered parameters are not copied
 * into the stash. A backward that follows the backward of another micro-batch therefore gathers again the parameters that it
 * reads from the forward pass. `position` as in mp_traffic_of. Adds nothing if shape->n_ranks is 0 (no pipeline). MP_NOMEM.
 * O(gathers * n). */
mp_status mp_rank_add_repeated(const mp_graph *graph, const mp_pipeline_shape *shape, int rank, const mp_step *steps, size_t n,
                               const mp_traffic_rank *position, mp_rank_traffic *traffic, mp_error *err);
/* Computes per chunk the bytes that waiting micro-batches hold if every micro-batch runs steps[0..n). MP_NOMEM. Other errors
 * as mp_timeline_build. */
mp_status mp_rank_held_bytes(const mp_rank *rank, const mp_step *steps, size_t n, int64_t *bytes, mp_error *err);
/* Sets the bytes that waiting micro-batches hold, per chunk, and finishes the graph again. MP_INVALID: the sum of bytes
 * overflows. MP_NOMEM. */
mp_status mp_rank_hold(mp_rank *rank, const int64_t *bytes, mp_error *err);
/* Returns the maximum of mp_rank.held_bytes over all chunks. */
int64_t mp_rank_most_held(const mp_rank *rank);
/* Checks that mp_rank.held_bytes is large enough for a plan's steps. MP_REFUTED: it is too small. Other errors as
 * mp_rank_held_bytes. */
mp_status mp_rank_check(const mp_rank *rank, const mp_step *steps, size_t n, mp_error *err);
/* Computes per chunk the seconds that steps[0..n) take for one micro-batch, as input of mp_schedule_play. `seconds` has an
 * entry per stage of the pipeline. Only the entries of this rank are written: chunk c has entry c * n_ranks + rank. A step on
 * another channel than compute counts only while compute waits for it. Sends and receives between stages are excluded from
 * these times; `send` is the time of the send to the next stage. MP_NOMEM. */
mp_status mp_rank_seconds(const mp_rank *rank, const mp_step *steps, size_t n, mp_stage_seconds *seconds, mp_error *err);
