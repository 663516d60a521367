/* step.h - the values of a step that kernels read from device memory.
 *
 * A captured pass is replayed with different values at the same address. Before each replay the values are copied there from
 * pinned host memory, in the order of the first stream. */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"

typedef struct mp_cuda_pass {
    uint64_t seed;
    uint32_t step;
} mp_cuda_pass;

typedef struct mp_cuda_step mp_cuda_step;

/* Allocates the values on host and device when the device is opened. The caller must close *out, even after a failure. */
mp_status mp_cuda_step_open(mp_cuda_step **out, mp_error *err);
void mp_cuda_step_close(mp_cuda_step *step); /* does nothing for NULL */

/* mp_backend's begin: enqueues the copy of a pass's values. */
void mp_cuda_begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors);
/* Returns the device address of this pass's values for the calling thread's backend. Begins the pass if that has not happened
 * yet. */
const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run);
/* Returns the device address of the factors of updates. Enqueues their copy if they differ from the pass's factors. */
const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors);
