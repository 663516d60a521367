/* trace.h - a training step as a trace for Perfetto and chrome://tracing.
 * Private to formats/, cli/ and python/, which calls mp_trace_write through planning.h. */
#pragma once

#include <stdbool.h>

#include "memplan/plan.h"

/* True if a path ends in .json. */
bool mp_is_trace_path(const char *path);

/* Writes the steps of a plan (NULL: keep-all) in the Trace Event Format ("JSON object" form; ts and dur in microseconds, as
 * the graph's costs have them): a complete event per step, whose category is the activity, with the step, the operator and,
 * where known, the line of the network's program; and per step and tier a counter of live bytes by kind. Each channel has a
 * thread; steps stand at their time on its clock (makespan.h). Atomic, as mp_file_write. The same input gives the same file.
 * MP_INVALID: no steps, or such that cannot run; MP_IO, MP_NOMEM. */
mp_status mp_trace_write(const mp_graph *graph, const mp_plan *plan, const char *title, const char *path, mp_error *err);
