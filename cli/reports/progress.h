/* progress.h - the progress of a search in one line, overwritten on a terminal and never wrapped. In a pipe or on a dumb
 * terminal a line "memplan: progress: ..." is added after 10 s, and then after twice the time each, at least every 10 minutes.
 * Nothing is written with -q or --no-progress. Ctrl-C ends the search with the best so far, a second one the program
 * (interrupt.h). */
#pragma once

#include "cli/options/options.h"
#include "memplan/solver.h"

/* When the next line of a log is due, in seconds since the work began. */
typedef struct log_times {
    bool is_on;
    double next_at;
} log_times;

/* Starts the times of a log: on if progress is shown, and not on a terminal that rewrites its lines. */
log_times log_times_start(const options *o);
/* Returns true if a line is due, and sets when the next one is. */
bool log_is_due(log_times *times, double seconds);

typedef struct progress {
    int64_t floor_bytes;
    int64_t budget_bytes; /* MP_NO_LIMIT: none. If it is below the floor, the smallest plan is searched for */
    double start;         /* when the first search of an answer began, by mp_clock_now */
    double shown_at;
    int64_t best_ticks, bound_ticks; /* also of earlier searches; -1: none */
    bool shows, any, verbose;
    log_times logs;
    char what[48]; /* text before the line: which of several searches runs */
} progress;

/* Returns the seconds that --time-limit leaves for the next search, at least a tenth of it; 0: there is no limit. */
double progress_time_left(const search_options *o);
/* Called before a search; its mp_progress_call is then progress_show with the progress as data. */
void progress_start(progress *p, const options *o, int64_t floor_bytes, int64_t budget_bytes);
bool progress_show(const mp_progress *now, void *p);
/* Says which of several searches is next. Returns false if the user has asked to stop. */
bool progress_next(progress *p, const char *what);
void progress_end(progress *p);
