/* trace.h - a training step as a trace for Perfetto and chrome://tracing. Private to formats/, cli/ and python/, which calls
 * mp_trace_write through planning.h. */
#pragma once

#include <stdbool.h>

#include "memplan/plan.h"

/* True if a path ends in .json. */
bool mp_is_trace_path(const char *path);

/* Writes the steps of a plan (NULL: keep-all) in the Trace Event Format ("JSON object" form; ts and dur in microseconds, from
 * the graph's costs). Each step is a complete event. Its category is the activity, and it has the step, the operator and, if
 * known, the source line in the user's program. Each step also has a counter per tier with live bytes by kind. Each channel has
 * a thread; steps are placed at their times on its clock (makespan.h). Atomic, as mp_file_write. The same input gives the same
 * file. MP_INVALID: no steps, or steps that cannot run. MP_IO, MP_NOMEM. */
mp_status mp_trace_write(const mp_graph *graph, const mp_plan *plan, const char *title, const char *path, mp_error *err);
