/* solver.h - what the searches of planner/solve and planner/studies share beside mp_solve. */
#pragma once

#include "memplan/solver.h"

/* How many candidates a searcher tries when the caller does not say: an offer takes time in proportion to the graph. O(1). */
int64_t mp_default_moves(const mp_graph *graph);

/* Writes the answer's bound into its plan, and checks that. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err);
