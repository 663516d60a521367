/* solver.h - what the searches of planner/solve and planner/studies share beside mp_solve. */
#pragma once

#include "memplan/plan.h"
#include "memplan/solver.h"

/* Returns the number of candidates that a searcher tries by default: fewer on larger graphs, where an offer takes longer. O(1).
 */
int64_t mp_default_moves(const mp_graph *graph);

/* The request with a problem: the caller's, or, where that is NULL, *own, which is then released with mp_problem_free.
 * MP_NOMEM.
 */
mp_status mp_request_complete(const mp_request *request, mp_request *out, mp_problem **own, mp_error *err);

/* Writes the answer's bound into its plan, and checks that. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err);

/* The floor and the lower bound that a plan claims, where it claims one, are no higher than what is proved here. The floor as
 * in memplan/floor.h; the bound, if `proves_bound`, by planning for the plan's budget again, first with normal and then with
 * all effort. MP_REFUTED: more is claimed than that proves, or the bound is of orders that there are not. MP_NOMEM. As
 * mp_floor, and with `proves_bound` as mp_solve. */
mp_status mp_plan_check_proofs(const mp_graph *graph, const mp_plan *plan, bool proves_bound, mp_error *err);
