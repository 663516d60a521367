/* bound.h - a certified lower bound on the time of every plan within a budget, and the stage that proved it.
 *
 * Fix two nodes i and j, with i before j in every plan. During the first run of i, the retained activations fit into the
 * budget minus the memory that every plan needs at that moment. Every activation that a node of (i, j] reads and that was
 * not retained must be recomputed between the first runs of i and j. The retained set that minimises recomputation is the
 * solution of a knapsack-constrained closure problem. If a Lagrange multiplier relaxes the memory constraint, the rest is a
 * minimum-cut problem. The bounds of disjoint intervals add up. docs/internals/bound.md has the proof, an example with six
 * nodes and the contribution of each stage. */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/graph.h"

/* The set of plans for which a lower bound is proved. */
typedef enum mp_bound_orders {
    MP_BOUND_NO_ORDER, /* nothing is proved */
    MP_BOUND_THIS_ORDER,
    MP_BOUND_ANY_ORDER
} mp_bound_orders;

/* Returns "this-order" or "any-order", as in plan files; "" for MP_BOUND_NO_ORDER. */
const char *mp_bound_orders_text(mp_bound_orders orders);

typedef struct mp_bound {
    /* lower bound: no plan within the budget takes fewer ticks. It is at least the sum of the ticks of every node's fastest
     * alternative */
    int64_t ticks;
    bool infeasible; /* true if no plan fits the budget; `ticks` is then the sum of the ticks of every node's fastest
                        alternative */
    mp_bound_orders orders;
    mp_bound_stage stage; /* the stage that proved it */
    int from, to; /* The interval with the largest individual bound begins with the first run of node `from` and ends with the
                     first run of node `to`. `from` -1: the bound uses no interval. `to` -1: the interval ends at the end of the
                     training step. If no plan fits: `from` is the node that exceeds the budget, or -1 */
    double multiplier; /* Lagrange multiplier of the memory constraint at the start of the interval (from, to], in ticks per
                          byte */
} mp_bound;

/* Computes the bound for plans whose peak_bytes is at most budget_bytes. options NULL: list order, effort 4. The same input
 * gives the same bound and report, unless `stop` ends the computation. For graphs of more than 32,767 nodes, only two methods
 * run. The first is one interval that starts at the end of forward. The second sums bounds over parts of the node list; it
 * needs a graph with short lifetimes and without loss and backward nodes (planner/bound/bound.h). MP_NOMEM.
 *
 * Cost: the precedence relation takes O(nodes * edges / 64) time and O(nodes^2 / 4) bytes. Beyond 32,767 nodes both are
 * O(graph). Each pass k (mp_bound_options.effort) adds some hundreds of minimum cuts of about linear time, and linear
 * programmes of about 10^8 rows * iterations. Method: Lagrangian relaxation (Everett 1963) of closure problems (Picard
 * 1976); docs/internals/bound.md lists all sources. */
mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err);
