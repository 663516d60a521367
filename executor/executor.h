/* executor.h - running plans: backends, programs, executions, whole trainings. */
#ifndef EXECUTOR_EXECUTOR_H
#define EXECUTOR_EXECUTOR_H

#include "executor/data/feed.h"
#include "executor/data/initialise.h"
#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/kernel/array.h"
#include "executor/kernel/backend.h"
#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"
#include "executor/kernel/philox.h"
#include "executor/run/algorithms.h"
#include "executor/run/execution.h"
#include "executor/run/program.h"
#include "executor/train/evaluate.h"
#include "executor/train/state.h"
#include "executor/train/train.h"

#endif
