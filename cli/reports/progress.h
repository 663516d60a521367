/* progress.h - what a search is doing, in one line that is written over on a terminal; nothing is written into a pipe. Ctrl-C
 * ends the search with the best so far, a second one ends the program. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "memplan/solver.h"

typedef struct progress {
    int64_t floor_bytes;
    double shown_at; /* seconds into the search */
    bool terminal, any;
    char what[48]; /* stands in front of the line: what is searched, of several */
} progress;

/* Around a search: `progress_show` is its mp_progress_call with the progress as data. */
void progress_start(progress *p, int64_t floor_bytes);
bool progress_show(const mp_progress *now, void *p);
/* Where several searches follow each other: says which one is next. False: the user has asked to stop. */
bool progress_next(progress *p, const char *what);
void progress_end(progress *p);

#endif
