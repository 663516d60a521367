/* bound_tree.h - branch and bound on what is live at boundaries, over the linear programme of overlapping intervals. For
 * bound.c.
 */
#ifndef PLANNER_BOUND_TREE_H
#define PLANNER_BOUND_TREE_H

#include "planner/bound/overlap/bound_overlap.h"

/* At least *ticks are taken beyond first runs after nodes[0], each node before the next; *ticks comes back as that, or as it
 * was, if that is more. Where what is live is all or nothing at every boundary, no labelling is in part any more, so that with
 * enough work the bound is what these boundaries can prove at most. `work`: of linear programmes, iterations * rows.
 * MP_INFEASIBLE (no message): no plan fits. MP_NOMEM. Best first (Land and Doig 1960), on the storage for which both branches
 * promise the most (reliability branching: Achterberg, Koch and Martin 2005). */
mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err);

#endif
