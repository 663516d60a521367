/* order.h - whether a schedule keeps the order in which the graph lists its nodes. */
#ifndef PLANNER_ORDER_H
#define PLANNER_ORDER_H

#include "estimator/timeline.h"

/* Whether forward nodes run for the first time in the order of the list, and loss and backward nodes run in it, as the bound
 * for `this-order` takes for granted (bound.h). Recomputations and updates may be anywhere. MP_NOMEM. O(n). */
mp_status mp_order_is_kept(const mp_graph *graph, const mp_step *steps, size_t n, bool *is_kept, mp_error *err);

#endif
