/* stages.h - cuts a network into pipeline stages, chooses the recomputation of each stage, and computes the seconds of a step.
 *
 * 1. A stage boundary is between two blocks. The boundaries are chosen so that the slowest stage is as fast as possible.
 * 2. A stage holds the activations of its micro-batches in flight (memplan/ranks/schedule.h): all m under GPipe, min(m, p - i)
 *    on stage i of p under 1F1B. A rank with several interleaved stages holds the activations of all its stages.
 * 3. If a rank exceeds the memory, its blocks keep less. Each time, the block whose next option frees the most bytes per tick
 *    advances. (Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN training"; Qi et al. 2024 on micro-batches in
 *    flight.)
 * 4. If the busiest rank recomputes, blocks move from it to other ranks while that makes the step shorter. Recomputation on a
 *    rank that would be idle costs no time.
 *
 * A step is simulated. A stage runs its forwards and backwards in the order of the schedule. Each of them begins when the rank
 * is free and its input has arrived. Afterwards gradients are summed over dp and shard, partly hidden by the last backward.
 * Finally parameters are updated.
 */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/ranks/meshes.h"
#include "planner/parallel/loads.h"

/* One step of one mesh: the input of the simulation. */
typedef struct mp_step_request {
    const mp_load *load; /* of the network at the mesh's tp and at this micro-batch size */
    const mp_ranks *ranks;
    mp_schedule schedule;
    int64_t n_chunks; /* chunks per rank: 1 unless stages are interleaved */
    int64_t n_micro_batches, memory_bytes;
    mp_host host;
} mp_step_request;

/* Returns a lower bound on the seconds of a step: compute only, without recomputation, bubbles or communication. O(blocks). */
double mp_step_bound(const mp_step_request *request);
/* Returns a lower bound on the bytes of the fullest stage under any recomputation and offloading. O(parameters + blocks). */
int64_t mp_step_floor(const mp_step_request *request);
/* Cuts the stages, chooses the recomputation of each, and simulates the step. Fills in stages[0..pp * n_chunks), which the
 * caller allocates, and the other fields of *out. *fits is false if the last recomputation options still exceed the memory.
 * MP_NOMEM. O(blocks * log(ticks) + stages * micro-batches). */
mp_status mp_step_play(const mp_step_request *request, mp_mesh_choice *out, bool *fits, mp_error *err);
