/* stages.h - cuts a network into pipeline stages, chooses the recomputation of each stage, and computes the seconds of a
 * training step.
 *
 * 1. A stage boundary is between two blocks. Boundaries are chosen so that the slowest stage takes as little time as possible.
 * 2. A stage holds the activations of its micro-batches in flight (memplan/ranks/schedule.h). With m micro-batches and p
 * stages, stage i holds all m micro-batches under GPipe and min(m, p - i) under 1F1B. A rank with several interleaved stages
 * holds the activations of all its stages.
 * 3. If a rank exceeds the memory, its blocks keep fewer activations. In each round one block moves to its next recomputation
 * option: the block for which this frees the most bytes per tick. (Narayanan et al. 2021, "Memory-efficient pipeline-parallel
 * DNN training"; Qi et al. 2024 on micro-batches in flight.)
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

/* The input of the simulation: one training step on one mesh. */
typedef struct mp_step_request {
    const mp_load *load; /* the load of the network, for this mesh's tp and this micro-batch size */
    const mp_ranks *ranks;
    mp_schedule schedule;
    int64_t n_chunks; /* chunks (stages) per rank: 1 unless the schedule is interleaved */
    int64_t n_micro_batches, memory_bytes;
    mp_host host;
} mp_step_request;

/* Returns a lower bound on the seconds of a training step. It includes compute, but no recomputation, bubbles or communication.
 * O(blocks). */
double mp_step_bound(const mp_step_request *request);
/* Returns a lower bound on the memory in bytes of the fullest stage. It is valid for any recomputation and offloading.
 * O(parameters + blocks). */
int64_t mp_step_floor(const mp_step_request *request);
/* Cuts the network into stages, chooses the recomputation of each stage, and simulates the training step. The caller allocates
 * out->stages for pp * n_chunks stages. *fits is false if a rank exceeds the memory even with the last option of every block.
 * MP_NOMEM. O(blocks * log(ticks) + stages * micro-batches). */
mp_status mp_step_simulate(const mp_step_request *request, mp_mesh_choice *out, bool *fits, mp_error *err);
