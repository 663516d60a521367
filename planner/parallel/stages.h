/* stages.h - the stages of a pipeline: where the network is cut, what each stage holds and recomputes, and how long a step is.
 *
 * Stages are cut between blocks so that the slowest is as fast as can be. A stage holds what it keeps of each micro-batch
 * between that one's forward and its backward, for as many as the schedule has in flight there (memplan/ranks/schedule.h):
 * all m of them under GPipe, min(m, p - i) on stage i of p under 1F1B. A rank with several stages, which interleave, holds what
 * all of them do. Where that is too much, blocks of the stage keep less: each time the one whose next
 * option frees the most bytes per tick. (Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN training"; Qi et al.
 * 2024 on what is in flight.)
 *
 * Then blocks go from the busiest rank to others, if it recomputes, while that makes the step shorter: what ranks recompute
 * that would wait costs nothing.
 *
 * A step is played through: each stage runs its forwards and backwards in the order of its schedule, each when its own clock
 * and the tensor that it waits for permit; then gradients are summed over dp and shard, as far as the last micro-batch's
 * backward does not hide it, and parameters are updated.
 */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/ranks/meshes.h"
#include "planner/parallel/loads.h"

/* The part of a mesh that a step depends on. */
typedef struct mp_step_request {
    const mp_load *load; /* of the network at mesh.tp and the micro-batch */
    const mp_ranks *ranks;
    mp_schedule schedule;
    int64_t n_chunks; /* of each rank: 1 unless they interleave */
    int64_t n_micro_batches, memory_bytes;
    mp_host host;
    double worth_seconds; /* a step that cannot get down to this is taken as it is first cut; 0: none is */
} mp_step_request;

/* Returns a lower bound on the seconds of a step, without recomputation, bubbles or anything that the network adds. O(blocks).
 */
double mp_step_bound(const mp_step_request *request);
/* Returns a lower bound on the bytes of the fullest stage, however it recomputes and copies. O(parameters + blocks). */
int64_t mp_step_floor(const mp_step_request *request);
/* Cuts the stages, chooses what they keep, and plays the step through; stages[0..pp * n_chunks) and the rest of *out but its
 * list of stages are filled. *fits: false: what is held is over the memory, with the least of it kept. MP_NOMEM. O(blocks *
 * log(ticks)
 * + stages * micro-batches). */
mp_status mp_step_play(const mp_step_request *request, mp_mesh_choice *out, bool *fits, mp_error *err);
