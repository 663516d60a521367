/* arena_solve.h - searches for plans whose static bytes plus arena fit the budget, as `memplan plan` does.
 *
 *     // given: const mp_graph *graph; mp_error *err
 *     const mp_request request = {.graph = graph, .budget_bytes = INT64_C(8) << 30, .wants_bound = true};
 *     mp_answer answer = {0};
 *     MP_CHECK(mp_solve_with_arena(&request, &answer, err));
 *     if (answer.plan) MP_CHECK(mp_plan_write(answer.plan, graph, "plan.json", err));
 *     mp_answer_free(&answer);
 */
#pragma once

#include "memplan/solver.h"

/* Like mp_solve, but the budget limits static_bytes + arena_bytes, and every plan in the answer has offsets that passed
 * mp_plan_check. If the search finds no plan that fits together with its arena, the answer's plan is NULL. Budgets of other
 * tiers also limit static bytes plus arena.
 *
 * The first search limits the peak. If the arena of its plan exceeds the budget, the search is repeated from that plan with
 * a lower limit. If the next plan leaves budget unused, the limit is raised again. The number of repetitions is small and
 * fixed. The answer is the fastest plan that fits. If none fits, the smallest plan is tried. A quarter of a time limit is
 * reserved for arenas and repetitions. If the first plan fits, the remaining time is used to find a faster plan. */
mp_status mp_solve_with_arena(const mp_request *request, mp_answer *answer, mp_error *err);
