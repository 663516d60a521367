/* glpk_session.h - calls of GLPK that come back whatever happens. For the planner's own use.
 *
 * GLPK ends the process on errors unless a hook takes over, and the hook may not return: it jumps back out of the work, whose
 * frames are skipped. What they own has to lie in what the caller of the session holds, or in GLPK's environment, which is
 * freed as a whole then.
 */
#ifndef PLANNER_GLPK_SESSION_H
#define PLANNER_GLPK_SESSION_H

#include <stdbool.h>

#include "estimator/error.h"

/* A line of what GLPK tells about its work, in its own words. True: break it off. */
typedef bool (*mp_glpk_heard)(void *data, const char *line);

/* work(data) may call GLPK, which prints nothing; `heard`, if not NULL, gets what it would print, if it is told to print
 * anything. MP_LIMIT: GLPK broke off with an error, needs more room than 1 GiB, or was broken off by `heard`. GLPK
 * is used by one thread at a time; an environment that the thread had before is left as it is, except after an error, which
 * or after it was broken off, which costs it. */
mp_status mp_glpk_session(void (*work)(void *data), mp_glpk_heard heard, void *data, mp_error *err);

/* Called by the work where a test may want GLPK to fail. */
void mp_glpk_point(void);
/* For tests: GLPK fails after this many points (-1: never). */
extern _Thread_local int mp_glpk_fail_after;

#endif
