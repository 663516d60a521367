/* schedule.h - the order in which the ranks of a pipeline run their micro-batches, and how long a step of it takes.
 *
 * A pipeline of p ranks has p stages, or with v chunks p v: stage q is chunk q / p of rank q % p. Each of m micro-batches goes
 * forward through all stages and then backward. Rank r of p runs
 *
 *     gpipe        all forwards, then all backwards (Huang et al. 2019); alone, one after the other
 *     1f1b         min(m, p - r) forwards, then a backward and a forward in turn (Narayanan et al. 2021)
 *     interleaved  the same over chunks, p micro-batches of one chunk after the other: 2 (p - r - 1) + (v - 1) p forwards, then
 *                  a forward and a backward in turn (Narayanan et al. 2021, "Efficient large-scale language model training")
 *     zb-h1        as 1f1b, but what makes gradients of parameters waits for r further backwards, where 1f1b would wait
 *                  for its neighbour (Qi et al. 2024, "Zero bubble pipeline parallelism")
 *
 * In even stages, f and b seconds for a micro-batch's forward and backward, w of b for gradients of parameters, the bubble is
 * (p - 1) (f + b); with chunks that divided by v; for zb-h1 (p - 1) (f + b - 2 w).
 *
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
int mp_schedule_find(const char *name);             /* -1: none */

typedef struct mp_pipeline_shape {
    mp_schedule schedule;
    int n_ranks, n_chunks; /* chunks of each rank */
    int64_t n_micro_batches;
} mp_pipeline_shape;

/* Checks that there are ranks, chunks and micro-batches, chunks only where they interleave, and then at least two, and
 * micro-batches in whole groups of as many as there are ranks. MP_INVALID. O(1). */
mp_status mp_schedule_check(const mp_pipeline_shape *shape, mp_error *err);

typedef enum mp_pass { MP_PASS_FORWARD, MP_PASS_BACKWARD, MP_PASS_WEIGHTS } mp_pass;

/* What a rank does without a break. */
typedef struct mp_turn {
    mp_pass pass;
    int chunk;
    int64_t micro_batch;
    double begin, end; /* seconds, once it is played */
} mp_turn;

/* Returns how many turns each rank has. O(1). */
size_t mp_schedule_turns(const mp_pipeline_shape *shape);
/* Writes the turns of a rank in their order. O(turns). */
void mp_schedule_order(const mp_pipeline_shape *shape, int rank, mp_turn *turns);

/* What a rank keeps per micro-batch in one of its chunks. */
typedef struct mp_kept {
    int64_t forward_bytes; /* from its forward to its backward */
    int64_t weights_bytes; /* from there until the gradients of its parameters are made, where these wait */
} mp_kept;
/* Finds for each chunk the most bytes that micro-batches hold beside the one that runs there, without what this one keeps in
 * the rank's earlier chunks. `kept` and `bytes` are per chunk. MP_NOMEM. O(turns). */
mp_status mp_schedule_held_bytes(const mp_pipeline_shape *shape, int rank, const mp_kept *kept, int64_t *bytes, mp_error *err);
/* Returns how many further backwards of a rank come before what makes gradients of parameters of the same micro-batch; 0: none,
 * it is part of its backward. O(1). */
int mp_schedule_postpones(const mp_pipeline_shape *shape, int rank);
/* Returns how many micro-batches a rank holds at once, each in each chunk counted apart, the one that runs included. */
int64_t mp_schedule_in_flight(const mp_pipeline_shape *shape, int rank);

/* The seconds of a micro-batch in one stage. */
typedef struct mp_stage_seconds {
    double forward, backward; /* backward without `weights` where these wait */
    double weights;           /* of the gradients of parameters */
    double send;              /* to the next stage, and of the gradient from there */
    double tail;              /* after the last turn of its rank: sums over other ranks, updates */
} mp_stage_seconds;

/* A step that has been played. */
typedef struct mp_played {
    size_t n_turns;        /* of each rank */
    mp_turn *turns;        /* rank by rank, in their order */
    double seconds;        /* of the step */
    double bubble_seconds; /* in which the busiest rank waits for others */
    mp_pool *pool;         /* owns all */
} mp_played;

/* Plays a step: each turn begins when its rank is free and what it waits for has been sent. `stages` has n_ranks * n_chunks
 * elements. *out is released with mp_schedule_free (NULL is fine). As mp_schedule_check; MP_NOMEM. O(turns * ranks). */
mp_status mp_schedule_play(const mp_pipeline_shape *shape, const mp_stage_seconds *stages, mp_played **out, mp_error *err);
void mp_schedule_free(mp_played *played);
MP_OWNER(mp_schedule_free, mp_played)
