/* bound.h - a proved lower bound: how long every plan within a budget takes at least.
 *
 * While node i runs for the first time, what repeatable forward nodes made before and what is read later fits beside what has
 * to live then anyway. Whatever nodes between i and a later j read, and that was not held at i, is made again in between, from
 * what was held. The cheapest choice of what is held, with the memory priced (Lagrange), is a minimum cut; intervals (i, j]
 * that follow each other add up. What orders leave open (in-place pairs, alternatives, what may run on either side) is given
 * away.
 */
#ifndef PLANNER_BOUND_H
#define PLANNER_BOUND_H

#include "estimator/graph/graph.h"

typedef struct mp_bound_options {
    bool any_order; /* false: of plans whose forward nodes first run in list order, and whose loss and backward nodes do */
    int effort;     /* 0: one interval; k > 0: chains of intervals between 16 k points, 64 k branchings in each, intervals split
                       by up to 4 of 4 k nodes each and coupled by 32 k rounds, then linear programmes of some 2500 k rows (at
                       most 20000) over overlapping intervals; all for k = 1, 2, 4, .. up to it. The last of more than one goes
                       on with exchanges of boundaries and branch and bound on what is held at them */
    bool (*stop)(void *data); /* asked between cuts; true: end with the best bound so far. NULL: never */
    void *data;
} mp_bound_options;

typedef struct mp_bound {
    int64_t ticks;      /* no plan within the budget takes less; at least what every node once takes in its fastest form */
    bool infeasible;    /* no such plan fits the budget; ticks is then the sum over nodes */
    const char *covers; /* "this-order", "any-order" */
} mp_bound;

/* The bound for plans whose peak_bytes is at most budget_bytes; options NULL: this order, effort 4. The same input gives the
 * same bound, unless `stop` ends it. Beyond 32767 nodes only the one interval from
 * the turn-around on. MP_NOMEM. O(nodes * edges / 64) time and O(nodes^2 / 4) bytes for the order of nodes, beyond 32767 nodes
 * O(graph) both; for each k of effort some hundreds of cuts, in practice about linear each, and linear programmes of about 10^8
 * rows * iterations. Lagrangian relaxation (Everett 1963) of closure problems (Picard 1976), intervals coupled by
 * subgradients (Polyak 1969), branch and bound best first (Land and Doig 1960). */
mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err);

#endif
