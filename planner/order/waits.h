/* waits.h - the time for which compute waits for copies and exchanges, and updates that run in this time. */
#pragma once

#include "memplan/timeline.h"

/* Sets *idle to the ticks for which compute is idle before step t, or before the end of the steps if t is n. `ends`: scratch, n
 * numbers. MP_NOMEM. O(n). */
mp_status mp_wait_ticks(const mp_graph *graph, const mp_step *steps, int n, int t, int64_t *ends, int64_t *idle, mp_error *err);

/* Writes to `out` the order in which step `from` runs right after the later step `to`. The moved step is not issued. All other
 * issued steps are awaited by the same steps as before. `out` has n elements. O(n). */
void mp_steps_postpone(const mp_step *steps, int n, int from, int to, mp_step *out);

/* An update that is fused into backward (MP_FUSE_BACKWARD) normally runs as soon as its inputs are complete. If compute later
 * waits for a copy or an exchange, moves earlier updates into this wait. Changes the order only if it takes less time and its
 * peak is within the budget, or not larger than before. Does nothing for graphs without copies, and for graphs with copies of
 * optimizer state. Deterministic. MP_NOMEM. Builds at most one timeline per update and copy, and at most MP_WAIT_WORK steps of
 * timelines. */
mp_status mp_waits_hide_updates(const mp_graph *graph, mp_step *steps, int n, int64_t budget_bytes, mp_error *err);
