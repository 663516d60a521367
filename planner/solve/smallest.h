/* smallest.h - internal to planner/solve: answers with the smallest plan if a search finds no plan within the budget. */
#pragma once

#include "memplan/smallest.h"

/* Completes an answer whose search found no plan within the budget. If the request's start plan fits the budget, it becomes
 * answer->plan. Otherwise the smallest plan becomes answer->smallest, unless the user ended the search. If the smallest plan
 * fits, it becomes answer->plan as well. With with_arena, the plan gets offsets. `start` is the time at which the search
 * began, for its time limit. As mp_smallest_plan. */
mp_status mp_answer_fall_back(const mp_request *request, bool with_arena, double start, mp_answer *answer, mp_error *err);

/* Makes answer->plan the answer to the request. If it is NULL, makes it a copy of the smallest plan first. MP_NOMEM. As
 * mp_plan_check. */
mp_status mp_answer_take_smallest(const mp_request *request, mp_answer *answer, mp_error *err);

/* Lowers tier_bytes, the budgets of a further search, for each tier in which a plan with offsets exceeds the request's budget.
 * The new budget is the plan's peak in the tier. Its live bytes are reduced by the fraction of the arena that exceeds the
 * request's budget. With is_last, the new budget is so low that nothing is copied to the tier. Returns false if every tier
 * fits. O(storages). */
bool mp_request_lower_tiers(const mp_request *request, const mp_plan *plan, bool is_last, int64_t *tier_bytes);
