/* smallest.h - the smallest plan of a graph: offered where a budget cannot be met, and meant by the budget "min".
 *
 * The floor (floor.h) is certified, and there may be no plan that reaches it; this is a plan in hand. It does not depend on
 * the budget that was asked for, and on no clock: the work is counted, and the search sees sizes in place of ticks. So it is
 * the same for the same graph, however long operators took when they were measured. mp_solve_or_smallest and
 * mp_solve_with_arena fall back on it: they find a plan within every budget that it fits, if no time limit ends them.
 */
#pragma once

#include "memplan/solver.h"

/* Finds the plan of the lowest peak with the request's searcher; the request's budget, seed, moves and effort are ignored.
 * With an arena it has offsets and needs mp_plan_need bytes; if that exceeds its peak, another order may need less. It has
 * passed mp_plan_check. On MP_OK *out is released with mp_plan_free. As mp_solve; a time limit may end it early. */
mp_status mp_smallest_plan(const mp_request *request, bool with_arena, mp_plan **out, mp_error *err);

/* Like mp_solve; but if that finds no plan and was not stopped, `smallest` is the smallest plan, and if it fits, the
 * answer's plan is that or a cheaper one found from there. So the peak of `smallest` is a budget that can be met. As
 * mp_smallest_plan. */
mp_status mp_solve_or_smallest(const mp_request *request, mp_answer *answer, mp_error *err);
