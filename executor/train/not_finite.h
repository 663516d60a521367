/* not_finite.h - a training whose numbers are no longer finite: noticed, and where it began. */
#pragma once

#include "executor/run/execution.h"
#include "memplan/train.h"

/* MP_REFUTED where a parameter or buffer holds a value that is not finite after `step` steps; it names it. Nothing may be
 * pending. MP_NOMEM, MP_IO. O(parameters). */
mp_status mp_check_finite(mp_execution *execution, const mp_program *program, int64_t step, mp_error *err);

/* Adds to the message of a training that was refuted in step `failed` (0, 1 ...) the operator that gave the first value that is
 * not finite, its tensor and step. The training is repeated from `state` (NULL: from the first values), with every operand
 * looked at in the last steps, or in all of them if it began before those. Takes the memory of an execution. A failure of its
 * own leaves the message as it is. */
void mp_explain_not_finite(const mp_train_request *request, const char *state, int64_t failed, mp_error *err);
