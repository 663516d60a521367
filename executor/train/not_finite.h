/* not_finite.h - notices that a training has infinities or NaNs, and explains where they began. */
#pragma once

#include "executor/run/execution.h"
#include "memplan/train.h"

/* Checks all parameters and buffers after `step` steps. MP_REFUTED: one holds a value that is not finite; the message names
 * it. No update may be pending. MP_NOMEM, MP_IO. O(parameters). */
mp_status mp_check_finite(mp_execution *execution, const mp_program *program, int64_t step, mp_error *err);

/* Adds to the message of a training that was refuted in step `failed` (0, 1 ...) the file and row of a value in the data of
 * this step, or of those shortly before, that makes the loss infinite or NaN. O(batches). */
void mp_explain_data(const mp_train_request *request, int64_t failed, mp_error *err);

/* Adds to the message of a training that was refuted in step `failed` (0, 1 ...) the operator, tensor and step of the first
 * value that is not finite. Repeats the training from `state` (NULL: from the initial values), and inspects every operand of
 * the last steps, or of all steps if it began before those. Allocates the memory of an execution. If this itself fails, the
 * message stays as it is. */
void mp_explain_not_finite(const mp_train_request *request, const char *state, int64_t failed, mp_error *err);
