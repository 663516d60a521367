/* not_finite.h - detects infinities and NaNs in a training, and explains their origin. */
#pragma once

#include "executor/run/execution.h"
#include "memplan/train.h"

/* Checks all parameters and buffers after `step` steps. MP_REFUTED: one holds a value that is not finite; the message names
 * it. No update may be pending. MP_NOMEM, MP_IO. O(parameters). */
mp_status mp_check_finite(mp_execution *execution, const mp_program *program, int64_t step, mp_error *err);

/* Adds to the error message of a training that failed in step `failed` (0, 1 ...): the file and row of a data value that makes
 * the loss infinite or NaN. The data of this step and of a few earlier steps are searched. O(batches). */
void mp_explain_data(const mp_train_request *request, int64_t failed, mp_error *err);

/* Adds to the error message of a training that failed in step `failed` (0, 1 ...): operator, tensor and step of the first value
 * that is not finite. Repeats the training from `state` (NULL: from the initial values), and inspects every operand of the last
 * steps. If the values were already bad before, inspects all steps. Allocates the memory of an execution. If the repetition
 * fails, the message is unchanged. */
void mp_explain_not_finite(const mp_train_request *request, const char *state, int64_t failed, mp_error *err);
