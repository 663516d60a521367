/* launcher.h - the launcher (mpirun) that started this process as one of several, described by its environment variables. */
#pragma once

#include <sys/types.h>

/* Returns the number of processes started by the launcher; 1: no launcher. */
int launcher_ranks(void);
/* Returns this process's number among the launcher's processes, from 0; -1: no launcher. */
int launcher_rank(void);
/* Returns the process that starts ranks on this machine and ends them by signals: the nearest ancestor in another process
 * group. */
pid_t launcher_process(void);
/* Returns the seconds from the launcher's SIGTERM to its SIGKILL: Open MPI's odls_base_sigkill_timeout, or its default. */
double launcher_kill_seconds(void);
