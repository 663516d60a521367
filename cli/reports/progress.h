/* progress.h - the progress of a search on one line, which a terminal overwrites and never wraps. In a pipe or on a dumb
 * terminal, lines "memplan: progress: ..." are printed instead. The first comes after 10 s. The time to the next line doubles
 * each time, up to 10 minutes. Nothing is printed with -q or --no-progress. Ctrl-C ends the search with the best plan so far;
 * a second Ctrl-C ends the program (interrupt.h). */
#pragma once

#include "cli/options/options.h"
#include "memplan/solver.h"

/* The time at which the next line of progress is printed in a pipe, in seconds since the work began. */
typedef struct log_times {
    bool is_on;
    double next_at;
} log_times;

/* Starts the lines of progress. They are printed if progress is shown and the output is not a terminal that can overwrite
 * lines. */
log_times log_times_start(const options *o);
/* Returns true if a line is due, and sets the time of the next one. */
bool log_is_due(log_times *times, double seconds);

typedef struct progress {
    int64_t floor_bytes;
    int64_t budget_bytes; /* bytes; MP_NO_LIMIT: no budget. If it is below the floor, the search is for the smallest plan */
    double start;         /* time at which the answer's first search began, by mp_clock_now */
    double shown_at;
    int64_t best_ticks, bound_ticks; /* makespan of the best plan, and the bound, in ticks, also from earlier searches of the
                                        same answer; -1: none */
    bool shows, any, verbose;
    log_times logs;
    char what[48]; /* text at the begin of the progress line that names the running search */
} progress;

/* Returns the seconds that --time-limit leaves for the next search, at least a tenth of the limit; 0: no limit. */
double progress_time_left(const search_options *o);
/* Called before a search. The search then calls progress_show with the progress as data. */
void progress_start(progress *p, const options *o, int64_t floor_bytes, int64_t budget_bytes);
bool progress_show(const mp_progress *now, void *p);
/* Sets the text for the next of several searches. Returns false if the user has requested a stop. */
bool progress_next(progress *p, const char *what);
void progress_end(progress *p);
