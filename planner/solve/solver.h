/* solver.h - functions shared by the searches of planner/solve and planner/studies, in addition to mp_solve. */
#pragma once

#include "memplan/plan.h"
#include "memplan/solver.h"

/* Returns the default number of candidates that a searcher offers. Larger graphs get fewer, because an offer takes longer.
 * O(1). */
int64_t mp_default_moves(const mp_graph *graph);

/* Copies the request to *out and sets its problem: the caller's problem, or a new one if the request has none. *own is the new
 * problem or NULL; release it with mp_problem_free. MP_NOMEM. */
mp_status mp_request_complete(const mp_request *request, mp_request *out, mp_problem **own, mp_error *err);

/* mp_solve in one search, for a request that has a problem. If the graph has copies, only the searcher named by the request
 * runs, and copies are not issued afterwards. As mp_solve. */
mp_status mp_solve_at_once(const mp_request *request, mp_answer *answer, mp_error *err);
/* True if the request asks for a bound and has a budget. */
bool mp_request_is_bounded(const mp_request *request);

/* Builds a plan from other steps, as many as the plan `before` has. The new plan inherits request and proofs from `before`. If
 * `before` has offsets, the new plan gets new offsets. MP_NOMEM. As mp_plan_new and mp_arena_layout. */
mp_status mp_plan_with_steps(const mp_graph *graph, const mp_plan *before, const mp_step *steps, mp_plan **out, mp_error *err);

/* Stores the request's budgets and options, and the floor, in a plan. */
void mp_plan_take_request(const mp_request *request, int64_t floor_bytes, mp_plan *plan);
/* Stores the bound of an answer in the answer's plan, and checks the plan. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err);

/* Checks that the floor and the bound claimed by a plan do not exceed the values that this function proves. The floor is
 * proved as in memplan/floor.h. With `proves_bound`, the bound is proved by planning for the same budget again, with normal
 * and then with thorough effort. MP_REFUTED: a claim exceeds the proved value, or the bound is for an unknown class of orders.
 * MP_NOMEM. As mp_floor, and with `proves_bound` as mp_solve. */
mp_status mp_plan_check_proofs(const mp_graph *graph, const mp_plan *plan, bool proves_bound, mp_error *err);
