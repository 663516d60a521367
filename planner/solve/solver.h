/* solver.h - what the searches of planner/solve and planner/studies share in addition to mp_solve. */
#pragma once

#include "memplan/plan.h"
#include "memplan/solver.h"

/* Returns how many candidates a searcher tries by default: fewer on larger graphs, where an offer takes longer. O(1). */
int64_t mp_default_moves(const mp_graph *graph);

/* Copies the request and gives it a problem: the caller's, or if that is NULL a new one, which is *own and is released with
 * mp_problem_free. MP_NOMEM. */
mp_status mp_request_complete(const mp_request *request, mp_request *out, mp_problem **own, mp_error *err);

/* mp_solve of a request that has a problem, by one search: of a graph with copies by this searcher alone, and no copy is issued
 * afterwards. As mp_solve. */
mp_status mp_solve_at_once(const mp_request *request, mp_answer *answer, mp_error *err);
/* True if a bound is asked for, and there is a budget. */
bool mp_request_is_bounded(const mp_request *request);

/* Makes a plan of as many other steps, with the request and the proofs of the plan before, and offsets if that has some.
 * MP_NOMEM. As mp_plan_new and mp_arena_layout. */
mp_status mp_plan_with_steps(const mp_graph *graph, const mp_plan *before, const mp_step *steps, mp_plan **out, mp_error *err);

/* Writes into a plan what it was made for, and the floor. */
void mp_plan_take_request(const mp_request *request, int64_t floor_bytes, mp_plan *plan);
/* Writes the answer's bound into its plan, and checks the plan. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err);

/* Checks that the floor and the lower bound that a plan claims are no higher than what is proved here: the floor as in
 * memplan/floor.h; the bound, if `proves_bound`, by planning for the plan's budget again, first with normal and then with
 * thorough effort. MP_REFUTED: the plan claims more than that, or a bound for unknown orders. MP_NOMEM. As mp_floor, and
 * with `proves_bound` as mp_solve. */
mp_status mp_plan_check_proofs(const mp_graph *graph, const mp_plan *plan, bool proves_bound, mp_error *err);
