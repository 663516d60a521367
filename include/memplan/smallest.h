/* smallest.h - the smallest plan of a graph: the fallback if the search finds no plan within a budget, and the plan for the
 * budget "min".
 *
 * The floor (floor.h) is a certified lower bound that no plan may reach. The smallest plan is an actual plan. It depends
 * neither on the requested budget nor on a clock: work is counted, and the search uses sizes instead of ticks. The same
 * graph therefore always gives the same smallest plan, even if operators are measured again. mp_solve_or_smallest and
 * mp_solve_with_arena fall back on the smallest plan. So, without a time limit, they find a plan for every budget that is at
 * least the smallest plan's memory. */
#pragma once

#include "memplan/solver.h"

/* Finds the plan with the lowest peak, with the request's searcher. The request's budget, seed, moves and effort are
 * ignored. With with_arena the plan has offsets and requires mp_plan_need bytes. If fragmentation makes the arena larger
 * than the live bytes, another order of steps may require less memory. The plan has passed mp_plan_check. On MP_OK release
 * *out with mp_plan_free. Errors as mp_solve; a time limit may end the search early. */
mp_status mp_smallest_plan(const mp_request *request, bool with_arena, mp_plan **out, mp_error *err);

/* Like mp_solve, but falls back on the smallest plan. If the search finds no plan and was not stopped, the answer's
 * `smallest` is the smallest plan. If the smallest plan is within the budget, the answer's plan is the smallest plan or a
 * faster one that was found from it. So the peak of `smallest` is always a feasible budget. Errors as mp_smallest_plan. */
mp_status mp_solve_or_smallest(const mp_request *request, mp_answer *answer, mp_error *err);
