/* order.h - the order in which the graph lists its nodes, kept: forward nodes run for the first time in the order of the list,
 * and loss and backward nodes run in it, as the bound for `this-order` takes for granted (bound.h). Recomputations and updates
 * may be anywhere.
 */
#ifndef PLANNER_ORDER_H
#define PLANNER_ORDER_H

#include "estimator/graph/timeline.h"

/* Whether a schedule keeps the order. MP_NOMEM. O(n). */
mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err);

/* The schedule with more runs of forward nodes: before one that comes too early, those that should have come before it. What
 * ran for the first time later is then a recomputation. Nodes that may not run again only move. Loss and backward nodes stay
 * where they are. On MP_OK *out is released with mp_free. MP_NOMEM. O(n). */
mp_status mp_order_restore(const mp_graph *graph, const mp_step *steps, size_t n, mp_step **out, size_t *n_out, mp_error *err);

#endif
