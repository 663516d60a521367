/* unmeetable_report.h - what `memplan plan` says where there is no plan within the budget. */
#pragma once

#include "cli/reports/outcome.h"

/* No search is needed to say no. */
bool is_below_floor(const outcome *out);
/* Without a plan in the answer: whether it is proved that there is none. */
bool is_proved_no(const options *o, const mp_answer *answer, int64_t budget_bytes, int64_t floor_bytes);
bool is_refused(const outcome *out); /* the same */
/* The exit status where there is no plan. */
int no_plan_status(bool is_proved);
/* The verdict, what is proved, and what holds the floor; below the floor there need not be an answer yet. */
void print_refusal(const outcome *out);
/* What the search has found instead. */
mp_status print_smallest(const outcome *out, mp_error *err);
/* The verdict once more. */
void print_refusal_verdict(const outcome *out);
