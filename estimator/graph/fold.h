/* fold.h - a graph without the copies of optimizer state that lies in another tier. */
#pragma once

#include "memplan/timeline.h"

/* Makes the graph without the copies of state: every update has its state on the device for its own step, out of nothing. What
 * is left keeps its numbers; where nothing else is copied, there is only the device. Any plan of the graph without those
 * copies is one of this, in no more bytes and ticks. On MP_OK *out is released with mp_graph_free; the original must outlive
 * it. MP_NOMEM. O(graph). */
mp_status mp_state_fold(const mp_graph *graph, mp_graph **out, mp_error *err);
/* Gives the ticks of the user's step: everything is kept, and nothing is recomputed or copied. All extra time is compared with
 * it. Waits for the network count. As mp_timeline_build. */
mp_status mp_plain_ticks(const mp_graph *graph, int64_t *ticks, mp_error *err);
/* Leaves out the steps of some nodes, and returns how many are left. `at` is space for one number per step and the end. O(n).
 */
size_t mp_steps_leave_out(const mp_graph *graph, mp_step *steps, size_t n, bool (*is_out)(const mp_graph *graph, int node),
                          int *at);
