/* bound_tree.h - branch and bound on what is live at boundaries, over the linear programme of overlapping intervals. */
#pragma once

#include "planner/bound/overlap/bound_overlap.h"

/* Raises *ticks, a bound on recomputation after nodes[0], each node before the next. When every storage is wholly live or
 * wholly not at each boundary, no labelling is fractional, so that with enough work the bound is the best that these boundaries
 * can prove. `work`: of linear programmes, iterations * rows. MP_INFEASIBLE (no message): no plan fits. MP_NOMEM. Best first
 * (Land and Doig 1960), on the storage for which both branches promise the most (reliability branching: Achterberg, Koch and
 * Martin 2005). */
mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err);
