/* run_trace.h - writes measured steps of one or more processes as a trace for Perfetto and chrome://tracing. */
#pragma once

#include "memplan/plan.h"

/* The measured times of a step on the clock of mp_clock_now, in seconds. For a step that runs in order, begin and end of its
 * call. For an issued step, `begin` is its issue, and `end` is the time at which its end was noticed. wait_begin and
 * wait_end enclose the wait for it. If one call ran several updates, the first update has the times. 0: the step did not
 * run, or no step waited for it. */
typedef struct mp_step_time {
    double begin, end, wait_begin, wait_end;
} mp_step_time;

/* Returns the trace events of one rank as text. Each step is an event in the lane of its channel. Each wait is an event in a
 * separate lane. `title` names the process; the lanes are named too. Time starts with the first step. Release *out with
 * mp_free. MP_NOMEM. */
mp_status mp_run_trace_events(const mp_graph *graph, const mp_plan *plan, const mp_step_time *times, int rank,
                              const char *title, char **out, mp_error *err);
/* Writes the events of n ranks to one file in the Trace Event Format. The file is replaced atomically, as by mp_file_write.
 * MP_IO, MP_NOMEM. */
mp_status mp_run_trace_write(const char *path, const char *const *events, size_t n, mp_error *err);
