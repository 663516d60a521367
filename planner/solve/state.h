/* state.h - graphs whose optimizer state lies in another tier and is copied to the device for its update
 * (planner/order/fold.h). */
#pragma once

#include "memplan/solver.h"

/* Returns what a plan of the graph takes at least, if one of the folded graph takes `ticks`: each channel carries all of its
 * state, and the first or last copy of the other way runs before or after that; with MP_FUSE_NONE copies out come after all but
 * updates. O(graph). */
int64_t mp_state_bound(const mp_graph *graph, int64_t ticks);

/* Answers a request, which has a problem, for a graph that copies state: the folded graph's plans, with copies as many updates
 * ahead and behind as is fastest within the budgets. As mp_solve; MP_INVALID: a tier's budget is below what lies there. */
mp_status mp_solve_with_state(const mp_request *request, mp_answer *answer, mp_error *err);
