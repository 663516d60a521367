/* smallest.h - fallback if a search finds no plan: the smallest plan. Internal to planner/solve. */
#pragma once

#include "memplan/smallest.h"

/* Completes an answer whose search found no plan within the budget. If the request's start plan fits, it becomes the answer.
 * Otherwise, unless the search was ended, the smallest plan becomes answer->smallest. If it fits, it becomes answer->plan as
 * well. It has an arena if with_arena. `start` is the begin of the search, for its time limit. As mp_smallest_plan. */
mp_status mp_answer_fall_back(const mp_request *request, bool with_arena, double start, mp_answer *answer, mp_error *err);

/* Makes answer->plan the answer to the request; NULL: a copy of the smallest plan. MP_NOMEM. As mp_plan_check. */
mp_status mp_answer_take_smallest(const mp_request *request, mp_answer *answer, mp_error *err);

/* Lowers tier_bytes for each tier in which a plan with offsets needs more than its budget. The new value is below the plan's
 * peak in the ratio of budget to need. With is_last, it is so low that nothing is copied there. Returns false if every tier
 * fits. O(storages). */
bool mp_request_lower_tiers(const mp_request *request, const mp_plan *plan, bool is_last, int64_t *tier_bytes);
