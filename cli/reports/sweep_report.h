/* sweep_report.h - prints a trade-off curve (plans for several budgets) as text. */
#pragma once

#include "cli/options/options.h"
#include "executor/workload/workload.h"
#include "memplan/studies/sweep.h"

/* On a terminal, prints the fastest plan for every budget, in 24 lines. In a pipe, with --list or with -v, prints the plans of
 * every searcher. */
void print_sweep(const talk_options *o, const mp_workload *s, const mp_sweep *found);
