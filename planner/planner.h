/* planner.h - plans, the searchers that find them, the floor below which there are none, and the checker. */
#ifndef PLANNER_PLANNER_H
#define PLANNER_PLANNER_H

#include "planner/arena/arena.h"
#include "planner/floor/floor.h"
#include "planner/order/dag.h"
#include "planner/order/segment_schedule.h"
#include "planner/order/updates.h"
#include "planner/pack/pack.h"
#include "planner/plan/check.h"
#include "planner/plan/fates.h"
#include "planner/plan/plan.h"
#include "planner/search/solver.h"
#include "planner/solve/arena_solve.h"
#include "planner/solve/second_stream.h"
#include "planner/studies/fit.h"
#include "planner/studies/spread.h"
#include "planner/studies/sweep.h"

#endif
