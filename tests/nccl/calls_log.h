/* calls_log.h - one line for each call by which a rank exchanges something, in the file $MEMPLAN_CALLS.RANK, if that is set. */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* "CHANNEL KIND PEER BYTES", written at once: the last step of a process that is ended is there, too. */
static inline void log_call(int rank, int channel, const char *kind, int peer, long long bytes)
{
    static FILE *file;
    char path[4096];
    const char *name = getenv("MEMPLAN_CALLS");
    if (!name) return;
    if (!file) {
        snprintf(path, sizeof path, "%s.%d", name, rank);
        file = fopen(path, "w");
    }
    if (!file) return;
    fprintf(file, "%d %s %d %lld\n", channel, kind, peer, bytes);
    fflush(file);
}
