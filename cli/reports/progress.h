/* progress.h - the progress of a search on one line, overwritten on a terminal and never wrapped. In a pipe or on a dumb
 * terminal it prints "memplan: progress: ..." lines instead: the first after 10 s, then each time after twice the time, but at
 * least every 10 minutes. Nothing is printed with -q or --no-progress. Ctrl-C ends the search with the best plan so far; a
 * second Ctrl-C ends the program (interrupt.h). */
#pragma once

#include "cli/options/options.h"
#include "memplan/solver.h"

/* The time of the next log line, in seconds since the work began. */
typedef struct log_times {
    bool is_on;
    double next_at;
} log_times;

/* Starts the log. It is on if progress is shown and the output is not a terminal that can overwrite lines. */
log_times log_times_start(const options *o);
/* Returns true if a line is due, and sets the time of the next one. */
bool log_is_due(log_times *times, double seconds);

typedef struct progress {
    int64_t floor_bytes;
    int64_t budget_bytes; /* MP_NO_LIMIT: none. If it is below the floor, the search is for the smallest plan */
    double start;         /* begin of the answer's first search, by mp_clock_now */
    double shown_at;
    int64_t best_ticks, bound_ticks; /* including earlier searches; -1: none */
    bool shows, any, verbose;
    log_times logs;
    char what[48]; /* text at the begin of the line: which of several searches runs */
} progress;

/* Returns the seconds that --time-limit leaves for the next search, at least a tenth of the limit; 0: no limit. */
double progress_time_left(const search_options *o);
/* Called before a search. The search then calls progress_show with the progress as data. */
void progress_start(progress *p, const options *o, int64_t floor_bytes, int64_t budget_bytes);
bool progress_show(const mp_progress *now, void *p);
/* Names the next of several searches. Returns false if the user has requested a stop. */
bool progress_next(progress *p, const char *what);
void progress_end(progress *p);
