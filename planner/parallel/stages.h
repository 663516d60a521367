/* stages.h - cuts a network into pipeline stages, chooses the recomputation of each stage, and computes the seconds of a
 * training step.
 *
 * 1. A stage boundary is between two blocks. The boundaries are chosen so that the slowest stage is as fast as possible.
 * 2. A stage holds the activations of its micro-batches in flight (memplan/ranks/schedule.h). With m micro-batches and p
 * stages these are all m under GPipe, and min(m, p - i) on stage i under 1F1B. A rank with several interleaved stages holds
 * the activations of all its stages.
 * 3. If a rank exceeds the memory, its blocks keep less. In each round one block advances to its next option: the block that
 * frees the most bytes per tick of recomputation. (Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN training";
 * Qi et al. 2024 on micro-batches in flight.)
 * 4. If the busiest rank recomputes, blocks move from it to other ranks as long as the step becomes shorter. Recomputation on
 * a rank that would be idle costs no time.
 *
 * The seconds come from a simulation. A stage runs its forward and backward passes in the order of the schedule. A pass begins
 * when the rank is free and the pass's input has arrived. Afterwards gradients are summed over dp and shard, partly hidden by
 * the last backward pass. Finally parameters are updated. */
#pragma once

#include "memplan/ranks/exchange.h"
#include "memplan/ranks/meshes.h"
#include "planner/parallel/loads.h"

/* One step of one mesh: the input of the simulation. */
typedef struct mp_step_request {
    const mp_load *load; /* load of the network, for the mesh's tp and the micro-batch size of this step */
    const mp_ranks *ranks;
    mp_schedule schedule;
    int64_t n_chunks; /* chunks per rank: 1 unless stages are interleaved */
    int64_t n_micro_batches, memory_bytes;
    mp_host host;
} mp_step_request;

/* Returns a lower bound on the seconds of a training step: compute only, without recomputation, bubbles or communication.
 * O(blocks). */
double mp_step_bound(const mp_step_request *request);
/* Returns a lower bound on the bytes of the stage that needs the most memory. It holds for any recomputation and offloading.
 * O(parameters + blocks). */
int64_t mp_step_floor(const mp_step_request *request);
/* Cuts the stages, chooses the recomputation of each, and simulates the training step. The caller allocates out->stages for pp
 * * n_chunks stages. *fits is false if a rank exceeds the memory even with the last option of every block. MP_NOMEM. O(blocks
 * * log(ticks) + stages * micro-batches). */
mp_status mp_step_play(const mp_step_request *request, mp_mesh_choice *out, bool *fits, mp_error *err);
