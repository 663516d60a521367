/* sweep_report.h - a trade-off curve as text. */
#pragma once

#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/sweep.h"

/* On a terminal in 24 lines: for every budget the cheapest plan. In a pipe, and with --list or -v, every searcher. */
void print_sweep(const talk_options *o, const subject *s, const mp_sweep *found);
