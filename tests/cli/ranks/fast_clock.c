/* fast_clock.c - a clock that runs CLOCK_FACTOR times as fast, loaded before a program's own libraries. The machine appears
 * slower by this factor, so that a time limit stops a search early, with the same number of seconds on every machine. Sleeping
 * is unchanged. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NANO = 1000000000 };

static struct timespec begun;
static long factor = 1;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("CLOCK_FACTOR");
    if (text) factor = strtol(text, NULL, 10);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &begun);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || clock != CLOCK_MONOTONIC) return failed;
    const long long passed = (now->tv_sec - begun.tv_sec) * (long long)NANO + now->tv_nsec - begun.tv_nsec;
    const long long shown = begun.tv_nsec + passed * factor;
    now->tv_sec = begun.tv_sec + shown / NANO;
    now->tv_nsec = shown % NANO;
    return 0;
}
