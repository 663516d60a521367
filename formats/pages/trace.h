/* trace.h - writes the steps of a plan as a trace for Perfetto and chrome://tracing. Private to formats/, cli/ and python/,
 * which calls mp_trace_write through planning.h. */
#pragma once

#include <stdbool.h>

#include "memplan/plan.h"

/* True if a path ends in .json. */
bool mp_is_trace_path(const char *path);

/* Writes the steps of a plan (NULL: keep-all) in the Trace Event Format ("JSON object" form; ts and dur in microseconds,
 * from the graph's costs). Each step is an event. Its category is the activity; its arguments are the step, the operator
 * and, if known, the source line in the user's program. For each step there is also a counter per tier with live bytes by
 * kind. Each channel is a thread of the trace; a step has the times of makespan.h. The file is replaced atomically, as by
 * mp_file_write. The same input gives the same file. MP_INVALID: there are no steps, or they cannot run. MP_IO, MP_NOMEM. */
mp_status mp_trace_write(const mp_graph *graph, const mp_plan *plan, const char *title, const char *path, mp_error *err);
