/* smallest.h - internal to planner/solve: functions that use the smallest plan as the answer, if a search finds no plan within
 * the budget. */
#pragma once

#include "memplan/smallest.h"

/* Completes the answer of a search that found no plan within the budget. If the request's start plan fits the budget, it
 * becomes answer->plan. Otherwise, unless the user has ended the search, the smallest plan is computed and becomes
 * answer->smallest. If it fits the budget, a copy of it becomes answer->plan. With with_arena, the plan gets offsets. `start`
 * is the time at which the search began, for its time limit. Errors as mp_smallest_plan. */
mp_status mp_answer_fall_back(const mp_request *request, bool with_arena, double start, mp_answer *answer, mp_error *err);

/* Stores the budgets and the seed of the request, and the floor, in answer->plan, and checks the plan. If answer->plan is NULL,
 * it first becomes a copy of the smallest plan. MP_NOMEM. Takes as long as mp_plan_check. */
mp_status mp_answer_take_smallest(const mp_request *request, mp_answer *answer, mp_error *err);

/* Lowers tier_bytes, the tier budgets of a further search. It does so for each tier in which a plan with offsets exceeds the
 * request's budget. The new budget limits live bytes: it is the plan's peak in the tier, reduced by the fraction by which the
 * plan's arena exceeds the request's budget. With is_last, the new budget is so low that nothing is copied to the tier. Returns
 * false if the plan fits in every tier. O(storages). */
bool mp_request_lower_tiers(const mp_request *request, const mp_plan *plan, bool is_last, int64_t *tier_bytes);
