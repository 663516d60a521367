/* accuracy.h - measures how well the parameters of an execution do (mp_accuracy, memplan/train.h). */
#pragma once

#include "executor/data/feed.h"
#include "executor/run/execution.h"
#include "memplan/train.h"

/* Runs the model forward on every whole batch of the feed (synthetic data: on one), in evaluation mode: without dropout, and
 * with running statistics. Parameters are read in place; other memory is allocated as it is needed, beside the plan's. Run
 * mp_execution_flush before. Of many ranks all call it, and get the same answer. Fails as mp_evaluate; MP_IO: a rank has ended.
 * O(samples). */
mp_status mp_accuracy_measure(mp_execution *execution, const mp_program *program, mp_feed *feed, uint64_t seed,
                              mp_accuracy *out, mp_error *err);
