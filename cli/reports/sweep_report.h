/* sweep_report.h - a trade-off curve as text. */
#pragma once

#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/sweep.h"

/* Prints the cheapest plan for every budget, on a terminal in 24 lines. In a pipe, with --list or with -v, prints the plans of
 * every searcher. */
void print_sweep(const talk_options *o, const subject *s, const mp_sweep *found);
