/* bound_exchange.h - local search for better boundaries of overlapping intervals, and the tree over the best. For bound.c. */
#ifndef PLANNER_BOUND_EXCHANGE_H
#define PLANNER_BOUND_EXCHANGE_H

#include "planner/bound/overlap/bound_select.h"

/* Moves the selection to better neighbours (one boundary shifted or added) as long as there are any; *ticks as in
 * mp_bound_select. MP_NOMEM. */
mp_status mp_bound_exchange(mp_bound_chain *c, mp_bound_selection *selection, int64_t *ticks, mp_error *err);
/* Branches on what is live at its boundaries (bound_tree.h); where these are few, at further nodes where memory is shortest
 * too. MP_NOMEM. */
mp_status mp_bound_exchange_tree(mp_bound_chain *c, const mp_bound_selection *selection, int64_t *ticks, mp_error *err);

#endif
