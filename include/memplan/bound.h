/* bound.h - a certified lower bound on the time of every plan within a budget, and the stage that proved it.
 *
 * Fix two nodes i and j, with i before j in every plan. During the first run of i, the retained activations fit into the budget
 * minus the memory that every plan needs then. Every activation that a node of (i, j] reads and that was not retained must be
 * recomputed in between. The retained set that minimises recomputation is the solution of a knapsack-constrained closure
 * problem. Relaxing the memory constraint with a multiplier leaves a minimum cut. The bounds of disjoint intervals add up.
 * docs/internals/bound.md has the proof, an example with six nodes and the contribution of each stage. */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/graph.h"

/* The set of plans for which a bound is proved. */
typedef enum mp_bound_orders {
    MP_BOUND_NO_ORDER, /* nothing is proved */
    MP_BOUND_THIS_ORDER,
    MP_BOUND_ANY_ORDER
} mp_bound_orders;

/* Returns "this-order" or "any-order", as in plan files; "" for MP_BOUND_NO_ORDER. */
const char *mp_bound_orders_text(mp_bound_orders orders);

typedef struct mp_bound {
    int64_t ticks;   /* no plan within the budget takes less time; at least the sum over nodes of the fastest alternative */
    bool infeasible; /* true if no plan fits the budget; ticks is then the sum over nodes */
    mp_bound_orders orders;
    mp_bound_stage stage; /* the stage that proved it */
    int from,
        to; /* the first runs of these nodes delimit the interval with the largest individual bound. `from` -1: no interval;
               `to` -1: the end of the step. If no plan fits: `from` is the node whose memory does not fit, or -1 */
    double multiplier; /* Lagrange multiplier at the start of this interval, in ticks per byte */
} mp_bound;

/* Computes the bound for plans whose peak_bytes is at most budget_bytes. options NULL: list order, effort 4. The same input
 * gives the same bound and report, unless `stop` ends the computation. Beyond 32,767 nodes only two parts remain: the interval
 * that starts at the end of forward, and the sum over parts of the list if no node is marked and lifetimes are short
 * (planner/bound/bound.h). MP_NOMEM.
 *
 * Cost: the precedence relation takes O(nodes * edges / 64) time and O(nodes^2 / 4) bytes, beyond 32,767 nodes O(graph) of
 * both. Each k of effort adds some hundreds of minimum cuts, in practice of about linear time, and linear programmes of about
 * 10^8 rows * iterations. Method: Lagrangian relaxation (Everett 1963) of closure problems (Picard 1976);
 * docs/internals/bound.md lists all sources. */
mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err);
