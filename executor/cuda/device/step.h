/* step.h - what kernels read of the step they run in, where they can read it: on the device.
 *
 * A captured pass is replayed with other values at the same place: they are copied there before it, from pinned memory of the
 * host, in the order of the first stream.
 */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"

typedef struct mp_cuda_pass {
    uint64_t seed;
    uint32_t step;
} mp_cuda_pass;

typedef struct mp_cuda_step mp_cuda_step;

/* Makes room for the values on both sides. When the device is opened; *out is closed even after a failure. */
mp_status mp_cuda_step_open(mp_cuda_step **out, mp_error *err);
void mp_cuda_step_close(mp_cuda_step *step); /* NULL is fine */

/* A pass begins: enqueues the copy of its values. As in mp_backend. */
void mp_cuda_begin(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors);
/* Where the values of this run lie, on the device of the calling thread's backend; begins its pass if nobody has. */
const mp_cuda_pass *mp_cuda_pass_of(const mp_run *run);
/* Where the factors of updates lie; enqueues their copy if it is not that of the pass. */
const mp_update_factors *mp_cuda_factors(const mp_update_factors *factors);
