/* smallest.h - falls back on the smallest plan if a search finds none. For planner/solve. */
#pragma once

#include "memplan/smallest.h"

/* Where a search found nothing within its budget: the plan that it started from is the answer, if it fits as it is. Else,
 * unless the search was ended, the smallest plan, with an arena if asked for, becomes the answer's `smallest`; and if it fits,
 * the answer's plan. `start` is when the search began, for its time limit. As mp_smallest_plan. */
mp_status mp_answer_fall_back(const mp_request *request, bool with_arena, double start, mp_answer *answer, mp_error *err);

/* Makes answer->plan, or if it is NULL a copy of the smallest plan, the answer to the request. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_take_smallest(const mp_request *request, mp_answer *answer, mp_error *err);
