/* bound_select.h - between which nodes the intervals lie that are bounded together. For bound.c. */
#ifndef PLANNER_BOUND_SELECT_H
#define PLANNER_BOUND_SELECT_H

#include "planner/bound_chain.h"

enum { MP_BOUND_MOST_SPLITS = 4 };

/* The bound of the intervals between these nodes, coupled (bound_couple.h). All splits are tried with few rounds, 4 for each of
 * effort, before: of the nodes there is room for MP_BOUND_MOST_SPLITS more, *ticks is what the n have without coupling, and
 * comes back as the best that was found. MP_NOMEM. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err);

/* The bound of overlapping intervals between these nodes, and others (bound_overlap.h); *ticks as above, but that nodes stay as
 * they are. MP_NOMEM. */
mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, int64_t *ticks, mp_error *err);

#endif
