/* schedule.h - pipeline schedules: the order in which ranks run micro-batches, and the time of a step.
 *
 * A pipeline of p ranks has p stages, or p v stages with v chunks per rank. Stage q is chunk q / p of rank q % p. Each of m
 * micro-batches runs forward through all stages and then backward. The schedules define the order of passes on rank r:
 * gpipe all forward passes, then all backward passes (Huang et al. 2019); with one rank each forward pass is followed by its
 * backward pass 1f1b min(m, p - r) forward passes, then alternately one backward and one forward (Narayanan et al. 2021)
 * interleaved like 1f1b, over chunks: p micro-batches of one chunk, then of the next. First 2 (p - r - 1) + (v - 1) p forward
 * passes, then alternately one forward and one backward (Narayanan et al. 2021, "Efficient large-scale language model
 * training") zb-h1 like 1f1b, but parameter gradients are delayed by r further backward passes. The delayed work fills the time
 * in which 1f1b waits for a neighbour (Qi et al. 2024, "Zero bubble pipeline parallelism")
 *
 * For equal stages, let f and b be the seconds of a forward and a backward pass, and w the part of b for parameter gradients.
 * The bubble is (p - 1) (f + b). With chunks it is divided by v. With zb-h1 it is (p - 1) (f + b - 2 w).
 *
 *     // given: const mp_stage_seconds *stages; mp_error *err
 *     mp_played *played = NULL;
 *     const mp_pipeline_shape shape = {.schedule = MP_SCHEDULE_1F1B, .n_ranks = 4, .n_chunks = 1, .n_micro_batches = 8};
 *     MP_CHECK(mp_schedule_check(&shape, err));
 *     MP_CHECK(mp_schedule_play(&shape, stages, &played, err));
 *     printf("%.3f s\n", played->seconds);
 *     mp_schedule_free(played);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/memory.h"

typedef enum mp_schedule {
    MP_SCHEDULE_GPIPE,
    MP_SCHEDULE_1F1B,
    MP_SCHEDULE_INTERLEAVED,
    MP_SCHEDULE_ZB_H1,
    MP_N_SCHEDULES
} mp_schedule;
const char *mp_schedule_name(mp_schedule schedule); /* "1f1b" */
int mp_schedule_find(const char *name); /* returns the pipeline schedule with this name; -1: no schedule has this name */

typedef struct mp_pipeline_shape {
    mp_schedule schedule;
    int n_ranks, n_chunks; /* number of pipeline ranks, and of chunks (stages) per rank */
    int64_t n_micro_batches;
} mp_pipeline_shape;

/* Checks the shape of a pipeline. MP_INVALID: no ranks, chunks or micro-batches; several chunks without the interleaved
 * schedule; the interleaved schedule with one chunk, or with a number of micro-batches that is not a multiple of the ranks.
 * O(1). */
mp_status mp_schedule_check(const mp_pipeline_shape *shape, mp_error *err);

typedef enum mp_pass { MP_PASS_FORWARD, MP_PASS_BACKWARD, MP_PASS_WEIGHTS } mp_pass;

/* A turn: one pass of a micro-batch that a rank runs without interruption. */
typedef struct mp_turn {
    mp_pass pass;
    int chunk;
    int64_t micro_batch;
    double begin, end; /* begin and end of the turn, in seconds since the start of the training step; set by mp_schedule_play */
} mp_turn;

/* Returns the number of turns (passes) per rank. O(1). */
size_t mp_schedule_turns(const mp_pipeline_shape *shape);
/* Writes the turns (passes) of a rank in execution order. O(turns). */
void mp_schedule_order(const mp_pipeline_shape *shape, int rank, mp_turn *turns);

/* The bytes that a rank keeps per micro-batch in one of its chunks. */
typedef struct mp_kept {
    int64_t forward_bytes; /* bytes kept from the forward pass of a micro-batch to its backward pass */
    int64_t weights_bytes; /* bytes kept from the backward pass of a micro-batch until its delayed parameter gradients are
                              computed */
} mp_kept;
/* Computes, per chunk, the maximum bytes that other micro-batches hold while a micro-batch runs in that chunk. The bytes that
 * the running micro-batch itself keeps in earlier chunks of the rank are excluded. `kept` and `bytes` are per chunk. MP_NOMEM.
 * O(turns). */
mp_status mp_schedule_held_bytes(const mp_pipeline_shape *shape, int rank, const mp_kept *kept, int64_t *bytes, mp_error *err);
/* Returns by how many further backward passes the rank delays the parameter gradients of a micro-batch. 0: parameter
 * gradients are part of the backward pass. O(1). */
int mp_schedule_postpones(const mp_pipeline_shape *shape, int rank);
/* Returns the maximum number of micro-batches in flight on a rank, the running one included. A micro-batch counts once for
 * each chunk in which it is in flight. */
int64_t mp_schedule_in_flight(const mp_pipeline_shape *shape, int rank);

/* The seconds that one micro-batch takes in one stage. */
typedef struct mp_stage_seconds {
    double forward,
        backward; /* seconds of the forward and the backward pass; backward excludes delayed parameter gradients (`weights`) */
    double ahead; /* seconds of recomputation in `backward` that need no gradient from the next stage */
    double weights; /* seconds to compute the delayed parameter gradients of the micro-batch */
    double send; /* seconds to send the activations of a micro-batch to the next stage. Sending the gradient back takes the same
                    time */
    double tail; /* seconds after the last turn of the rank: sums of gradients over other ranks, and updates */
} mp_stage_seconds;

/* The simulated course of one training step of a pipeline: the begin and end times of all turns. */
typedef struct mp_played {
    size_t n_turns;        /* number of turns per rank */
    mp_turn *turns;        /* the turns of rank 0 in execution order, then those of rank 1, and so on */
    double seconds;        /* duration of the whole training step in seconds */
    double bubble_seconds; /* seconds in which the busiest rank waits for other ranks */
    mp_pool *pool;         /* memory pool that owns this struct and all arrays */
} mp_played;

/* Simulates a training step of a pipeline. A turn begins when its rank is free and its inputs have arrived. A backward turn
 * runs its `ahead` seconds first, before the gradient arrives. `stages` has n_ranks * n_chunks elements. Release *out with
 * mp_schedule_free (NULL is allowed). Errors as mp_schedule_check; MP_NOMEM. O(turns * ranks). */
mp_status mp_schedule_play(const mp_pipeline_shape *shape, const mp_stage_seconds *stages, mp_played **out, mp_error *err);
void mp_schedule_free(mp_played *played);
MP_OWNER(mp_schedule_free, mp_played)
