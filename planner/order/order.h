/* order.h - schedules that keep the list order. Their first runs of forward nodes follow the order of the graph's list, and so
 * do loss and backward nodes. Recomputations and updates may be anywhere. The bound `this-order` holds for these schedules
 * only. */
#pragma once

#include "memplan/timeline.h"

/* Sets *is_kept to true if the schedule keeps the list order. MP_NOMEM. O(n). */
mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err);

/* Returns a schedule that keeps the list order. Before a first run that is too early, it inserts runs of the forward nodes that
 * precede it in the list. The old first run of an inserted node becomes a recomputation. A node that runs only once is moved
 * instead. Loss and backward nodes are not moved. On MP_OK release *out with mp_free. MP_NOMEM. O(n). */
mp_status mp_order_restore(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);
