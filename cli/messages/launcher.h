/* launcher.h - the program that has started this process as one of several (mpirun), as its environment describes it. */
#pragma once

#include <sys/types.h>

/* Returns how many processes the launcher has started together; 1: there is no launcher. */
int launcher_ranks(void);
/* Returns this process's number among them; -1: there is no launcher. */
int launcher_rank(void);
/* Returns the process that starts ranks on this machine and ends them by signals: the nearest ancestor in another process
 * group. */
pid_t launcher_process(void);
/* Returns the seconds from the launcher's SIGTERM to its SIGKILL: Open MPI's odls_base_sigkill_timeout, or its default. */
double launcher_kill_seconds(void);
