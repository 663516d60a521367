/* progress.h - what a search is doing, in one line that is written over on a terminal and never wraps; nothing is written into
 * a pipe, to a dumb terminal, or with -q or --no-progress. Ctrl-C ends the search with the best so far, a second one ends the
 * program (interrupt.h). */
#pragma once

#include "cli/options/options.h"
#include "memplan/solver.h"

typedef struct progress {
    int64_t floor_bytes;
    int64_t budget_bytes; /* MP_NO_LIMIT: none. Below the floor it is the smallest plan that is looked for */
    double start;         /* one clock for all searches of an answer */
    double shown_at;
    int64_t best_ticks, bound_ticks; /* of the rounds before too; -1: none */
    bool shows, any, verbose;
    char what[48]; /* stands in front of the line: what is searched, of several */
} progress;

/* What --time-limit leaves for a search now, a tenth of it at least, so that there is a plan; 0: there is no limit. */
double progress_time_left(const search_options *o);
/* Around a search: `progress_show` is its mp_progress_call with the progress as data. */
void progress_start(progress *p, const options *o, int64_t floor_bytes, int64_t budget_bytes);
bool progress_show(const mp_progress *now, void *p);
/* Where several searches follow each other: says which one is next. False: the user has asked to stop. */
bool progress_next(progress *p, const char *what);
void progress_end(progress *p);
