/* state.h - saving a training and going on with it.
 *
 * A safetensors file: every parameter and buffer under its name in the model, plain and in float32 (16-bit parameters: their
 * master copy), and "optimizer.1:NAME", "optimizer.2:NAME" for its moments; the metadata hold the step, the seed, the optimizer
 * and the model's name. So the file serves other programs as weights, too.
 */
#pragma once

#include "executor/run/execution.h"

/* Writes the state after `step` steps into a new file beside `path` and renames it. No update may be pending
 * (mp_execution_flush). MP_IO, MP_NOMEM. */
mp_status mp_state_save(const char *path, const mp_program *program, mp_execution *execution,
                        const mp_execution_options *options, int64_t step, mp_error *err);
/* Reads a saved state. MP_PARSE: it is no such file, or of another model, optimizer or seed (named); MP_IO. */
mp_status mp_state_resume(const char *path, const mp_program *program, mp_execution *execution,
                          const mp_execution_options *options, int64_t *step, mp_error *err);
