/* order.h - schedules that keep the list order. In such a schedule, the first runs of forward nodes are in the order of the
 * graph's node list, and so are loss and backward nodes. Recomputations, updates and copies may be anywhere. The bound
 * `this-order` is valid for these schedules only. */
#pragma once

#include "memplan/timeline.h"

/* Sets *is_kept to true if the schedule keeps the list order. MP_NOMEM. O(n). */
mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err);

/* Returns a schedule that keeps the list order. The first run of a forward node may come before the first run of a forward node
 * that precedes it in the list. Then a run of the preceding node is inserted before it. The former first run of an inserted
 * node becomes a recomputation. A node that may run only once is moved instead. Loss and backward nodes are not moved. On MP_OK
 * release *out with mp_free. MP_NOMEM. O(n). */
mp_status mp_order_restore(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);
