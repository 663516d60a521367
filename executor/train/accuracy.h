/* accuracy.h - measures loss and accuracy of an execution's parameters (mp_accuracy, memplan/train.h). */
#pragma once

#include "executor/data/feed.h"
#include "executor/run/execution.h"
#include "memplan/train.h"

/* Runs the model forward on every whole batch of the feed, or on one batch of synthetic data. Uses evaluation mode: dropout is
 * off, and normalization uses the running statistics. Parameters are read from the execution's memory. Activations need
 * additional memory, which is allocated operator by operator. Call mp_execution_flush before this function. With several
 * ranks, all must call the function, and all get the same result. Errors: as mp_evaluate; MP_IO: a rank has ended. O(samples).
 */
mp_status mp_accuracy_measure(mp_execution *execution, const mp_program *program, mp_feed *feed, uint64_t seed,
                              mp_accuracy *out, mp_error *err);
