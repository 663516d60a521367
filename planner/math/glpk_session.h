/* glpk_session.h - a session turns errors, on which GLPK would end the process, into a status.
 *
 * GLPK ends the process on errors unless a hook takes over, and the hook may not return: it jumps out of the work, whose frames
 * are skipped. What they allocate must be reachable from what the caller of the session owns, or belong to GLPK's environment,
 * which is then freed as a whole.
 */
#pragma once

#include "memplan/error.h"

/* work(data) may call GLPK, which prints nothing. MP_LIMIT: GLPK broke off with an error, or needs more memory than 1 GiB or
 * than there is. MP_NOMEM: there was none to begin with. Threads may have sessions at once: GLPK's environment is each thread's
 * own (glp_config("TLS")). One that the thread had before is left as it is, except after an error, which costs it. */
mp_status mp_glpk_session(void (*work)(void *data), void *data, mp_error *err);

/* Called by the work where a test may want GLPK to fail. */
void mp_glpk_point(void);
/* For tests: GLPK fails after this many points (-1: never); the most memory that it may take. */
extern _Thread_local int mp_glpk_fail_after, mp_glpk_most_mib;
