/* executor.h - running plans: backends, programs, executions, whole trainings. */
#ifndef EXECUTOR_EXECUTOR_H
#define EXECUTOR_EXECUTOR_H

#include "executor/algorithms.h"
#include "executor/array.h"
#include "executor/backend.h"
#include "executor/evaluate.h"
#include "executor/execution.h"
#include "executor/feed.h"
#include "executor/initialise.h"
#include "executor/inputs.h"
#include "executor/kernel.h"
#include "executor/optimizer.h"
#include "executor/parameters.h"
#include "executor/philox.h"
#include "executor/program.h"
#include "executor/state.h"
#include "executor/train.h"

#endif
