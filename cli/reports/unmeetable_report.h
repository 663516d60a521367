/* unmeetable_report.h - what `memplan plan` says where there is no plan within the budget. */
#pragma once

#include "cli/reports/outcome.h"

/* True if the budget is below the floor: no search is needed to say no. */
bool is_below_floor(const outcome *out);
/* True if the answer has no plan, and it is proved that there is none. */
bool is_refused(const outcome *out);
/* Returns the exit status of a command that has found no plan. */
int no_plan_status(bool is_proved);
/* Prints the verdict, what is proved, and what holds the floor; below the floor there need not be an answer yet. */
void print_refusal(const outcome *out);
/* Prints what the search has found instead. */
mp_status print_smallest(const outcome *out, mp_error *err);
/* Prints the verdict once more. */
void print_refusal_verdict(const outcome *out);
