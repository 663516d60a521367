/* arena_solve.h - plans that fit with their arena: what `memplan plan` answers with.
 *
 *     const mp_request request = {.graph = graph, .budget_bytes = INT64_C(8) << 30, .wants_bound = true};
 *     mp_answer answer = {0};
 *     MP_CHECK(mp_solve_with_arena(&request, &answer, err));
 *     if (answer.plan) MP_CHECK(mp_plan_write(answer.plan, graph, "plan.json", err));
 *     mp_answer_free(&answer);
 */
#pragma once

#include "memplan/solver.h"

/* As mp_solve, and every plan in the answer has offsets, with which it passed mp_plan_check: the budget bounds static_bytes +
 * arena_bytes. Where the arena of the plan that was found goes over the budget, the search is repeated from there, below that
 * plan's peak; where that leaves part of the budget free, above it again; a few times in all, and the cheapest that fits is
 * the answer. The smallest plan is the last resort. The answer's plan is NULL if none fits with its arena. A quarter of a time
 * limit is kept for arenas and these searches; if the first plan fits, that time improves it. The same holds of the budgets of
 * other tiers, and of what is always live and the arena there. */
mp_status mp_solve_with_arena(const mp_request *request, mp_answer *answer, mp_error *err);
