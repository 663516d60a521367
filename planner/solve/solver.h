/* solver.h - functions shared by the searches of planner/solve and planner/studies, in addition to mp_solve. */
#pragma once

#include "memplan/plan.h"
#include "memplan/solver.h"

/* Returns the default number of offers that a searcher may make. Larger graphs get fewer, because an offer takes longer.
 * O(1). */
int64_t mp_default_moves(const mp_graph *graph);

/* Copies the request to *out, with a problem: the caller's problem, or if the request has none a new one. *own is the new
 * problem or NULL; release it with mp_problem_free. MP_NOMEM. */
mp_status mp_request_complete(const mp_request *request, mp_request *out, mp_problem **own, mp_error *err);

/* Answers a request that has a problem by a single search, as mp_solve does. If the graph has copies, runs only the searcher
 * that the request names, and does not move copies afterwards. Errors as mp_solve. */
mp_status mp_solve_at_once(const mp_request *request, mp_answer *answer, mp_error *err);
/* True if the request asks for a bound and has a budget. */
bool mp_request_is_bounded(const mp_request *request);

/* Builds a plan from a changed list of steps, which has as many steps as the plan `before`. The new plan has the request and
 * the proofs of `before`. If `before` has offsets, the new plan gets new offsets. MP_NOMEM. Takes as long as mp_plan_new and
 * mp_arena_layout. */
mp_status mp_plan_with_steps(const mp_graph *graph, const mp_plan *before, const mp_step *steps, mp_plan **out, mp_error *err);

/* Stores the budgets and options of the request, and the floor, in a plan. */
void mp_plan_take_request(const mp_request *request, int64_t floor_bytes, mp_plan *plan);
/* Stores the bound of an answer in the answer's plan, and checks the plan. MP_NOMEM. Takes as long as mp_plan_check. */
mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err);
