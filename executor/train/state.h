/* state.h - saves and resumes a training.
 *
 * A saved state contains every parameter and buffer under its name in the model, row-major and in float32 (for a 16-bit
 * parameter, its master copy). "optimizer.1:NAME" and "optimizer.2:NAME" are the moments. The metadata contain the step, the
 * seed, the optimizer and the model's name. Other programs can therefore load the weights. Whole tensors are saved even if
 * they are sharded, so any number of ranks with any mesh can resume. Each rank then reads its own parts of the tensors.
 *
 * The state is one safetensors file, or a folder (formats/data/checkpoint.h) if ranks share optimizer state or the path is a
 * folder. In a folder, tensors are distributed over all ranks: each parameter to the rank with the fewest bytes so far,
 * buffers to rank 0. */
#pragma once

#include "executor/run/execution.h"

/* Saves the state after `step` steps, replacing the state at `path`. No update may be pending (mp_execution_flush). With
 * several ranks, all must call it; the call returns when the state is on the disk. MP_IO: also if another rank failed;
 * MP_NOMEM. */
mp_status mp_state_save(const char *path, const mp_program *program, mp_execution *execution,
                        const mp_execution_options *options, int64_t step, mp_error *err);
/* Restores a saved state. MP_PARSE: `path` is not a saved state, or belongs to another model, optimizer or seed (the message
 * says which). MP_INVALID: other ranks have a different state. MP_IO. */
mp_status mp_state_resume(const char *path, const mp_program *program, mp_execution *execution,
                          const mp_execution_options *options, int64_t *step, mp_error *err);
