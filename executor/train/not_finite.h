/* not_finite.h - detects infinities and NaNs in a training, and explains their origin. */
#pragma once

#include "executor/run/execution.h"
#include "memplan/train.h"

/* Checks that all parameters and buffers are finite after `step` steps. MP_REFUTED: a tensor contains an infinity or NaN; the
 * message names the tensor. No update may be pending. MP_NOMEM, MP_IO. O(parameters). */
mp_status mp_check_finite(mp_execution *execution, const mp_program *program, int64_t step, mp_error *err);

/* For a training that failed in step `failed` (0, 1 ...): searches the data of this step and of a few earlier steps for a
 * value that makes the loss infinite or NaN. Adds its file and row to the error message. O(batches). */
void mp_explain_data(const mp_train_request *request, int64_t failed, mp_error *err);

/* For a training that failed in step `failed` (0, 1 ...): finds the first value that is not finite, and adds its operator,
 * tensor and step to the error message. Repeats the training from `state` (NULL: from the initial values), and inspects every
 * operand of the last steps. If infinities or NaNs existed already before these steps, inspects all steps. Allocates the
 * memory of an execution. If the repetition fails, the message is unchanged. */
void mp_explain_not_finite(const mp_train_request *request, const char *state, int64_t failed, mp_error *err);
