/* bound_exchange.h - better boundaries for overlapping intervals, one exchanged at a time, and what is live at the best of
 * them, searched. For bound_select.c.
 */
#ifndef PLANNER_BOUND_EXCHANGE_H
#define PLANNER_BOUND_EXCHANGE_H

#include "planner/bound/overlap/bound_select.h"

/* Goes from the selection to better ones next to it; *ticks as in mp_bound_select. MP_NOMEM. */
mp_status mp_bound_exchange(mp_bound_chain *c, mp_bound_selection *selection, int64_t *ticks, mp_error *err);
/* Branches on what is live at its boundaries (bound_tree.h), and where they are few, at peaks beside them. MP_NOMEM. */
mp_status mp_bound_exchange_tree(mp_bound_chain *c, const mp_bound_selection *selection, int64_t *ticks, mp_error *err);

#endif
