/* run_trace.h - steps as they ran, of one process or many, as a trace for Perfetto and chrome://tracing. */
#pragma once

#include "memplan/plan.h"

/* When a step of a plan ran, on the clock of mp_clock_now: a call of compute from begin to end; what runs beside it from when
 * it was issued to when it was found to have ended, and when that was waited for. Of updates that are one call the first has
 * the time. 0: it did not run, or nobody waited. */
typedef struct mp_step_time {
    double begin, end, wait_begin, wait_end;
} mp_step_time;

/* Gives the events of one rank, as text: a complete event per step in the lane of its channel, one per wait in a lane of its
 * own, and the names of the process (`title`) and its lanes. Time begins with the first step. mp_free releases *out. MP_NOMEM.
 */
mp_status mp_run_trace_events(const mp_graph *graph, const mp_plan *plan, const mp_step_time *times, int rank,
                              const char *title, char **out, mp_error *err);
/* Writes the events of n ranks as one file in the Trace Event Format. Atomic, as mp_file_write. MP_IO, MP_NOMEM. */
mp_status mp_run_trace_write(const char *path, const char *const *events, size_t n, mp_error *err);
