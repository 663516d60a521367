/* without_state_copies.h - graphs without their copies of optimizer state. They are needed if optimizer state is stored in
 * another tier than the device. */
#pragma once

#include "memplan/timeline.h"

/* Builds the graph without state copies. In the graph without state copies, the state of an update is on the device during the
 * update's step, and no node produces it. The remaining nodes and storages keep their numbers. If the graph has no copies
 * except of state, only the device tier remains. A plan of the original graph becomes a plan of the graph without state copies
 * if its copies of state are removed; its bytes and ticks do not increase. On MP_OK release *out with mp_graph_free; the
 * original graph must outlive it. MP_NOMEM. O(graph size). */
mp_status mp_graph_without_state_copies(const mp_graph *graph, mp_graph **out, mp_error *err);
/* Computes the ticks of the training step as the user wrote it: everything is kept, and nothing is recomputed or copied.
 * The time includes waits for the network. It is the baseline of all extra time. Errors as mp_timeline_build. */
mp_status mp_keep_all_ticks(const mp_graph *graph, int64_t *ticks, mp_error *err);
/* Removes the steps of all nodes for which is_out is true, and returns the number of remaining steps. `at` is scratch space
 * for n + 1 numbers. O(n). */
size_t mp_steps_leave_out(const mp_graph *graph, mp_step *steps, size_t n, bool (*is_out)(const mp_graph *graph, int node),
                          int *at);
