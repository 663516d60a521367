/* fold.h - folded graphs: a graph without its copies of optimizer state. For graphs whose state is stored in another tier than
 * the device. */
#pragma once

#include "memplan/timeline.h"

/* Builds the folded graph. Every update has its state on the device for its own step, without a producer. The remaining nodes
 * and storages keep their numbers. If nothing else is copied, only the device tier remains. A plan of the original graph
 * without its state copies is a plan of the folded graph, with at most the same bytes and ticks. On MP_OK release *out with
 * mp_graph_free; the original must outlive it. MP_NOMEM. O(graph). */
mp_status mp_state_fold(const mp_graph *graph, mp_graph **out, mp_error *err);
/* Computes the ticks of the user's original step: everything is kept, and nothing is recomputed or copied. Waits for the
 * network count. This time is the baseline of all extra time. Errors as mp_timeline_build. */
mp_status mp_plain_ticks(const mp_graph *graph, int64_t *ticks, mp_error *err);
/* Removes the steps of nodes for which is_out is true, and returns the number of remaining steps. `at` is scratch space of n +
 * 1 numbers. O(n). */
size_t mp_steps_leave_out(const mp_graph *graph, mp_step *steps, size_t n, bool (*is_out)(const mp_graph *graph, int node),
                          int *at);
