/* lower_set_ladder.h - from the model's budget to the user's: a ladder of model budgets, whose strategies the timeline judges.
 */
#pragma once

#include "memplan/search.h"
#include "planner/segments/lower_set_dp.h"

/* Judges the strategy that a sequence stands for, or remembers what came of it. */
typedef mp_status (*mp_lower_set_judge)(void *data, const mp_lower_sets *sets, const int *sequence, int n, int64_t *peak_bytes,
                                        mp_error *err);

/* Searches the family on a ladder of model budgets, as far as a user's budget goes, and has strategies of every rung judged,
 * about `moves` in all. What is judged for a budget is judged for every larger one. */
mp_status mp_lower_set_ladder(mp_search *search, const mp_lower_sets *sets, int64_t budget_bytes, int64_t moves,
                              mp_lower_set_judge judge, void *data, mp_error *err);
