/* state.h - saving a training and going on with it.
 *
 * Every parameter and buffer under its name in the model, plain and in float32 (16-bit parameters: their master copy), and
 * "optimizer.1:NAME", "optimizer.2:NAME" for its moments; the metadata hold the step, the seed, the optimizer and the model's
 * name. So it serves other programs as weights, too. Whole tensors are saved, whoever has parts of them, and any number of
 * ranks, of any mesh, goes on with them: each takes what it is to have.
 *
 * It is one safetensors file, or a folder (formats/data/checkpoint.h): where ranks share state out, and where the path is a
 * folder. There the tensors are dealt to all ranks: each goes to the one that has the fewest bytes so far, buffers to rank 0.
 */
#pragma once

#include "executor/run/execution.h"

/* Writes the state after `step` steps in the place of what is at `path`. No update may be pending (mp_execution_flush). Of many
 * ranks all call it, and go on when the state is on the disk. MP_IO, also where another rank failed; MP_NOMEM. */
mp_status mp_state_save(const char *path, const mp_program *program, mp_execution *execution,
                        const mp_execution_options *options, int64_t step, mp_error *err);
/* Reads a saved state. MP_PARSE: it is no such file or folder, or of another model, optimizer or seed (named); MP_INVALID:
 * other ranks have another one; MP_IO. */
mp_status mp_state_resume(const char *path, const mp_program *program, mp_execution *execution,
                          const mp_execution_options *options, int64_t *step, mp_error *err);
