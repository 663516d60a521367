/* launcher.h - finds out whether a launcher (mpirun) has started this process as one of several, and the number of this process
 * among them. The functions read environment variables. */
#pragma once

#include <sys/types.h>

/* Returns the number of processes that the launcher has started; 1: there is no launcher. */
int launcher_ranks(void);
/* Returns the number of this process among the launcher's processes, from 0; -1: there is no launcher. */
int launcher_rank(void);
/* Returns the process that starts the ranks of this machine and ends them by signals. It is the nearest ancestor in another
 * process group. */
pid_t launcher_process(void);
/* Returns the seconds between SIGTERM and SIGKILL when the launcher ends a process. They come from Open MPI's
 * odls_base_sigkill_timeout, or are its default. */
double launcher_kill_seconds(void);
