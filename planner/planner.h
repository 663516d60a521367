/* planner.h - plans, the searchers that find them, the floor below which there are none, and the checker. */
#ifndef PLANNER_PLANNER_H
#define PLANNER_PLANNER_H

#include "planner/arena.h"
#include "planner/arena_solve.h"
#include "planner/check.h"
#include "planner/dag.h"
#include "planner/fates.h"
#include "planner/fit.h"
#include "planner/floor.h"
#include "planner/pack.h"
#include "planner/plan.h"
#include "planner/schedule.h"
#include "planner/second_stream.h"
#include "planner/solver.h"
#include "planner/spread.h"
#include "planner/sweep.h"

#endif
