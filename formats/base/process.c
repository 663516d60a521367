/* process.c - reads resident memory from Linux's /proc/self, and counts calls into libraries. */
#include "formats/base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes that a line of /proc/self/status states, such as "VmHWM: 123456 kB". -1: there is no such line. */
static int64_t status_line(const char *name)
{
    char line[256];
    int64_t kilobytes = -1;
    size_t n = strlen(name);
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return -1;
    while (kilobytes < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, name, n) && line[n] == ':' && strstr(line, " kB")) kilobytes = strtoll(line + n + 1, NULL, 10);
    (void)fclose(file);
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

int64_t mp_process_bytes(void)
{
    return status_line("VmRSS");
}

int64_t mp_process_peak_bytes(void)
{
    return status_line("VmHWM");
}

void mp_process_forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    (void)fclose(file);
}

atomic_int mp_library_works;
