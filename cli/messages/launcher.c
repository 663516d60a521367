/* launcher.c - reads the environment variables of mpirun, and finds the process that can end the ranks. */
#include "cli/messages/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KILL_SECONDS 1.0 /* default of Open MPI: seconds from SIGTERM to SIGKILL */

/* Returns the value of the first environment variable in the list whose text is a number; `otherwise` if there is none. */
static int number_in(const char *const *names, size_t n, int otherwise)
{
    for (size_t k = 0; k < n; k++) {
        const char *text = getenv(names[k]);
        char *end;
        const long number = text ? strtol(text, &end, 10) : -1;
        if (text && *text && !*end && number >= 0 && number < INT_MAX) return (int)number;
    }
    return otherwise;
}

int launcher_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    const int n = number_in(names, sizeof names / sizeof *names, 1);
    return n > 0 ? n : 1;
}

int launcher_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    return number_in(names, sizeof names / sizeof *names, -1);
}

static pid_t parent_of(pid_t process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    /* the last closing parenthesis ends the program's name, which may contain parentheses itself */
    const char *name_end = strrchr(text, ')');
    long long parent = 0;
    return name_end && sscanf(name_end + 1, " %*c %lld", &parent) == 1 ? (pid_t)parent : 0;
}

pid_t launcher_process(void)
{
    pid_t process = getppid();
    while (process > 1 && getpgid(process) == getpgrp()) process = parent_of(process);
    return process;
}

double launcher_kill_seconds(void)
{
    const char *text = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    char *end;
    const double seconds = text ? strtod(text, &end) : 0;
    return text && *text && !*end && seconds > 0 && seconds < 1e6 ? seconds : KILL_SECONDS;
}
