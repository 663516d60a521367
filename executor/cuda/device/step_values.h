/* step_values.h - the values of a pass (seed, step number, scalars of updates) that kernels read from device memory.
 *
 * A pass that was captured as a CUDA graph is replayed with different values at the same address. Before each replay, a copy
 * on the first stream brings the new values from pinned host memory to this address. */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"

typedef struct mp_cuda_pass {
    uint64_t seed;
    uint32_t step;
} mp_cuda_pass;

typedef struct mp_cuda_step mp_cuda_step;

/* Allocates the memory for the values of a pass (seed, step number, scalars) on host and device, when the device is opened. The
 * caller must close *out, even after a failure. */
mp_status mp_cuda_step_open(mp_cuda_step **out, mp_error *err);
void mp_cuda_step_close(mp_cuda_step *step); /* does nothing for NULL */

/* Implements mp_backend.begin: enqueues the copy of a pass's seed, step number and scalars of updates to the device. */
void mp_cuda_begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors);
/* Returns the device address of seed and step number for the pass `run`. The memory belongs to the calling thread's backend.
 * If mp_cuda_begin was not called for this pass, enqueues the copy of the values. */
const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run);
/* Returns the device address of the scalars of updates, such as the learning rate. If `factors` differs from the values on the
 * device, enqueues a copy. */
const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors);
