/* smallest.h - falls back on the smallest plan if a search finds none. For planner/solve. */
#pragma once

#include "memplan/smallest.h"

/* Where a search found nothing within its budget: the plan that it started from is the answer, if it fits as it is. Else,
 * unless the search was ended, the smallest plan, with an arena if asked for, becomes the answer's `smallest`; and if it fits,
 * the answer's plan. `start` is when the search began, for its time limit. As mp_smallest_plan. */
mp_status mp_answer_fall_back(const mp_request *request, bool with_arena, double start, mp_answer *answer, mp_error *err);

/* Makes answer->plan, or if it is NULL a copy of the smallest plan, the answer to the request. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_take_smallest(const mp_request *request, mp_answer *answer, mp_error *err);

/* For each tier that a plan with offsets needs more of than the request has: lowers tier_bytes below the plan's peak there in
 * the proportion of budget and need, or (is_last) so far that nothing is copied there. Returns false if there is none.
 * O(storages). */
bool mp_request_lower_tiers(const mp_request *request, const mp_plan *plan, bool is_last, int64_t *tier_bytes);
