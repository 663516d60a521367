/* progress.h - the progress of a search on one line, which a terminal overwrites and never wraps. In a pipe or on a dumb
 * terminal, lines "memplan: progress: ..." are printed instead. The first of these lines is printed after 10 s. The time
 * between lines doubles each time, up to 10 minutes. Nothing is printed with -q or --no-progress. Ctrl-C ends the search with
 * the best plan so far; a second Ctrl-C ends the program (interrupt.h). */
#pragma once

#include "cli/options/options.h"
#include "memplan/solver.h"

/* State for progress lines in a pipe: the time at which the next line is printed, in seconds since the work began. */
typedef struct log_times {
    bool is_on;
    double next_at;
} log_times;

/* Prepares progress lines for a pipe. They are printed if progress is shown and the output is no terminal that can overwrite
 * lines. */
log_times log_times_start(const options *o);
/* Returns true if it is time for a line, and sets the time of the next one. */
bool log_is_due(log_times *times, double seconds);

typedef struct progress {
    int64_t floor_bytes;
    /* bytes of the budget; MP_NO_LIMIT: no budget. If the budget is below the floor, the search looks for the smallest plan */
    int64_t budget_bytes;
    double start; /* time at which the first search of this answer began, by mp_clock_now */
    double shown_at;
    /* best_ticks: makespan of the best plan; bound_ticks: best bound. Both include earlier searches of the same answer; -1:
     * none */
    int64_t best_ticks, bound_ticks;
    bool shows, any, verbose;
    log_times logs;
    char what[48]; /* text at the begin of the progress line, which names the running search */
} progress;

/* Returns the seconds of --time-limit that are left for the next search, at least a tenth of the limit; 0: no limit. */
double progress_time_left(const search_options *o);
/* Called before a search. Afterwards the search calls progress_show, with the progress struct as data. */
void progress_start(progress *p, const options *o, int64_t floor_bytes, int64_t budget_bytes);
bool progress_show(const mp_progress *now, void *p);
/* Sets the text that names the next search. Returns false if the user has requested a stop. */
bool progress_next(progress *p, const char *what);
void progress_end(progress *p);
