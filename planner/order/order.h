/* order.h - schedules that keep the list order: first runs of forward nodes are in the order of the graph's list, and so are
 * loss and backward nodes. The bound for `this-order` assumes it. Recomputations and updates may be anywhere. */
#pragma once

#include "memplan/timeline.h"

/* Sets *is_kept to true if the schedule keeps the list order. MP_NOMEM. O(n). */
mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err);

/* Gives a schedule that keeps the list order: before a first run that comes too early, inserts runs of the forward nodes
 * that the list has before it. The old first run of such a node becomes a recomputation; a node that runs only once just
 * moves. Loss and backward nodes stay where they are. On MP_OK *out is released with mp_free. MP_NOMEM. O(n). */
mp_status mp_order_restore(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);
