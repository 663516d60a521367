/* run_trace.h - measured steps of one or more processes, as a trace for Perfetto and chrome://tracing. */
#pragma once

#include "memplan/plan.h"

/* The times of a step on the clock of mp_clock_now. For a compute step, begin and end of its call. For a concurrent step, begin
 * is its issue, and end is the time at which its end was noticed; wait_begin and wait_end enclose the wait for it. For several
 * updates in one call, the first update has the time. 0: the step did not run, or nothing waited for it. */
typedef struct mp_step_time {
    double begin, end, wait_begin, wait_end;
} mp_step_time;

/* Returns the events of one rank as text. Each step is a complete event in the lane of its channel, and each wait a complete
 * event in a separate lane. Names of the process (`title`) and its lanes are included. Time starts with the first step. Release
 * *out with mp_free. MP_NOMEM. */
mp_status mp_run_trace_events(const mp_graph *graph, const mp_plan *plan, const mp_step_time *times, int rank,
                              const char *title, char **out, mp_error *err);
/* Writes the events of n ranks as one file in the Trace Event Format. Atomic, as mp_file_write. MP_IO, MP_NOMEM. */
mp_status mp_run_trace_write(const char *path, const char *const *events, size_t n, mp_error *err);
