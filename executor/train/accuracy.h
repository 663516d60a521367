/* accuracy.h - measures loss and accuracy of an execution's parameters (mp_accuracy, memplan/train.h). */
#pragma once

#include "executor/data/feed.h"
#include "executor/run/execution.h"
#include "memplan/train.h"

/* Runs the model forward on every whole batch of the feed, or on one batch of synthetic data. Evaluation mode: no dropout,
 * running statistics. Parameters are read in place; other memory is allocated as needed, in addition to the plan's memory. Call
 * mp_execution_flush before. With several ranks, all must call it, and all get the same result. Errors: as mp_evaluate; MP_IO:
 * a rank has ended. O(samples). */
mp_status mp_accuracy_measure(mp_execution *execution, const mp_program *program, mp_feed *feed, uint64_t seed,
                              mp_accuracy *out, mp_error *err);
