/* rank.h - one rank of a pipeline: what other micro-batches hold while one runs, and how long it is busy with each.
 *
 * While a micro-batch runs, others wait between their forward and their backward (schedule.h), or for the gradients of their
 * parameters. What they hold is one storage of the rank's graph that is always live, `held`. Where it differs from chunk to
 * chunk, that is the least of them, and the nodes of a chunk have the rest as a workspace. How much it is depends on what the
 * rank keeps, that is, on its plan: mp_rank_held_bytes says how much it has to be, mp_rank_hold makes it so, and a plan holds
 * if that is enough for it (mp_rank_check).
 *
 * Where gradients of parameters wait, their nodes come behind one that marks the end of the backward whose gradient is sent on
 * (MP_RANK_TURN), and behind it they are run when others have gone backward.
 *
 *     MP_CHECK(mp_rank_held_bytes(&rank, steps, n, bytes, err)); // of keep-all, say; bytes[0..n_chunks)
 *     MP_CHECK(mp_rank_hold(&rank, bytes, err));
 *     MP_CHECK(mp_timeline_build(rank.graph, steps, n, &timeline, err)); // with what waits
 */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/ranks/schedule.h"
#include "memplan/timeline.h"

/* One rank. */
typedef struct mp_rank {
    mp_graph *graph;
    mp_pipeline_shape shape;
    int rank;
    int *chunk;              /* per storage: in which of the rank's chunks a micro-batch makes it; -1: not of a micro-batch */
    size_t n_storages;       /* of `chunk`; later ones are not of a micro-batch */
    int64_t *batch_bytes;    /* per chunk: what each micro-batch has for itself from its forward on: its inputs */
    int held;                /* the storage of what waits; -1: nothing does */
    int64_t *held_bytes;     /* per chunk: what waits while it runs, as mp_rank_hold was told */
    int turn;                /* storage: of no bytes, what makes gradients of parameters that wait reads it; -1: none waits */
    int outbox;              /* the storage of activations that the next rank has yet to take; -1: there is none */
    size_t n_nodes;          /* before exchanges of dp and shard */
    int *whole_node;         /* per node: its number in the whole graph; -1: it is of the pipeline */
    int *whole_storage;      /* per storage: likewise */
    mp_rank_traffic traffic; /* in a step: of sends, and of sums over the pipeline */
} mp_rank;
void mp_rank_free(mp_rank *rank);

/* Finds the step before which a micro-batch can wait for its backward: behind all forward nodes that have run by the first step
 * of loss or backward. MP_NOMEM. O(nodes + n). */
mp_status mp_rank_turn_around(const mp_graph *graph, const mp_step *steps, size_t n, size_t *at, mp_error *err);
/* Finds how many bytes wait while these steps run for one micro-batch, per chunk. MP_NOMEM; as mp_timeline_build. */
mp_status mp_rank_held_bytes(const mp_rank *rank, const mp_step *steps, size_t n, int64_t *bytes, mp_error *err);
/* Sets what waits, per chunk, and finishes the graph again. MP_INVALID: more bytes than can be counted. MP_NOMEM. */
mp_status mp_rank_hold(mp_rank *rank, const int64_t *bytes, mp_error *err);
/* Returns what waits while that chunk runs beside which most does. */
int64_t mp_rank_most_held(const mp_rank *rank);
/* Checks that what is held is enough for a plan's steps. MP_REFUTED: it is not. As mp_rank_held_bytes. */
mp_status mp_rank_check(const mp_rank *rank, const mp_step *steps, size_t n, mp_error *err);
/* Finds how long these steps keep a rank busy with a micro-batch, per chunk, for mp_schedule_play. What runs beside compute
 * counts where compute waits for it. Sends and receives are between the stages; `send` is that to the next stage. MP_NOMEM. */
mp_status mp_rank_seconds(const mp_rank *rank, const mp_step *steps, size_t n, mp_stage_seconds *seconds, mp_error *err);
