/* calls_log.h - logs one line per communication call of a rank to the file $MEMPLAN_CALLS.RANK, if this variable is set. */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Writes "CHANNEL KIND PEER BYTES" immediately, so that the log of a killed process is complete. */
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
