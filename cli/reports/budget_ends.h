/* budget_ends.h - the two plans between which a relative budget lies: the smallest that is found, and keep-all. */
#pragma once

#include "cli/messages/quantities.h"
#include "cli/options/options.h"
#include "memplan/search.h"

typedef struct budget_ends {
    int64_t peak_bytes;     /* of keep-all */
    mp_plan *smallest;      /* the plan, for a search to start from; NULL: not searched for */
    int64_t smallest_bytes; /* what it needs, with its arena where the command has one; -1: not searched for */
} budget_ends;

/* The ends for these budgets and the request's graph. The smallest plan is searched for if one of them counts from there: as
 * the request says, with a line of progress. --time-limit does not cut it short, so that the budget is the same each time.
 * budget_ends_free releases it. As mp_smallest_plan. */
mp_status budget_ends_of(const budget *budgets, size_t n, const options *o, const mp_request *request, budget_ends *out,
                         mp_error *err);
void budget_ends_free(budget_ends *ends);
