/* smallest.h - falls back on the smallest plan if a search finds none. For planner/solve. */
#pragma once

#include "memplan/smallest.h"

/* Call if a search found nothing within its budget. If the plan that it started from fits as it is, it is the answer.
 * Otherwise, unless the search was stopped, `smallest` becomes the smallest plan, with an arena if asked for; if that fits,
 * the answer's plan comes from a short search of `auto` from there. `start`: when the search began, for its time limit. As
 * mp_smallest_plan. */
mp_status mp_answer_fall_back(const mp_request *request, bool with_arena, double start, mp_answer *answer, mp_error *err);

/* Makes answer->plan, or if it is NULL a copy of the smallest plan, the answer to the request. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_take_smallest(const mp_request *request, mp_answer *answer, mp_error *err);
