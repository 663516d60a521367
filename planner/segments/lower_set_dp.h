/* lower_set_dp.h - dynamic programming over sequences of lower sets: the cheapest strategies within a model budget, and from
 * there to the user's budget: a ladder of model budgets, whose strategies the timeline judges.
 *
 * Dynamic programming over (L, overhead so far) -> least M(U): only the sum of what is kept matters for what follows.
 * Of the states of one lower set only those remain that no other beats in both overhead and bytes.
 */
#pragma once

#include "memplan/search.h"
#include "planner/segments/lower_set_family.h"

typedef enum mp_lower_set_aim {
    MP_TIME_CENTRIC,  /* the least overhead within the budget */
    MP_MEMORY_CENTRIC /* the largest: coarse segments gain most from freeing early, which (2) does not see */
} mp_lower_set_aim;

/* The sequences that remain in the end, from the one the aim wants to the one that keeps least. */
typedef struct mp_lower_set_strategies {
    size_t n;
    int64_t *ticks, *kept_bytes;
    int *sequence_start, *sequence; /* strategy i: sets sequence[sequence_start[i] .. sequence_start[i + 1]), the last one V */
    size_t ticks_capacity, kept_capacity, start_capacity, sequence_capacity;
} mp_lower_set_strategies;

/* Only strategies with an overhead of at most most_ticks (INT64_MAX: any). Overheads are told apart in up to max_levels
 * classes; if the sum of all ticks, or most_ticks if that is less, divided by the common divisor of all ticks, is below
 * max_levels, the result is exact. Without a strategy within budget and overhead, n = 0. Released with
 * mp_lower_set_strategies_free. MP_NOMEM. O(pairs * levels). */
mp_status mp_lower_set_search(const mp_lower_sets *sets, int64_t budget_bytes, mp_lower_set_aim aim, int max_levels,
                              int64_t most_ticks, bool charge_last, mp_lower_set_strategies *out, mp_error *err);
void mp_lower_set_strategies_free(mp_lower_set_strategies *strategies); /* frees what it points to */

/* The least budget for which the family has a strategy. MP_NOMEM. O(pairs * log bytes). */
mp_status mp_lower_set_least_budget(const mp_lower_sets *sets, int64_t *budget_bytes, mp_error *err);

/* Judges the strategy that a sequence stands for, or remembers what came of it. */
typedef mp_status (*mp_lower_set_judge)(void *data, const mp_lower_sets *sets, const int *sequence, int n, int64_t *peak_bytes,
                                        mp_error *err);

/* Searches the family on a ladder of model budgets, as far as a user's budget goes, and has strategies of every rung judged,
 * about `moves` in all. What is judged for a budget is judged for every larger one. */
mp_status mp_lower_set_ladder(mp_search *search, const mp_lower_sets *sets, int64_t budget_bytes, int64_t moves,
                              mp_lower_set_judge judge, void *data, mp_error *err);
