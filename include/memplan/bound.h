/* bound.h - a certified lower bound on the time of every plan within a budget, and the stage that proved it.
 *
 * Fix two nodes i and j, i before j in every plan. While i first runs, the retained activations fit into the budget less the
 * memory that every plan needs there. Every activation that a node of (i, j] reads and that was not retained must be recomputed
 * in between. Choosing the retained set that minimises recomputation is a knapsack-constrained closure problem; relaxing the
 * memory constraint with a multiplier leaves a minimum cut. The bounds of disjoint intervals add up. docs/internals/bound.md
 * has the proof, an example of six nodes and what each stage adds.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/graph.h"

/* The plans that a bound holds for. */
typedef enum mp_bound_orders {
    MP_BOUND_NO_ORDER, /* nothing is proved */
    MP_BOUND_THIS_ORDER,
    MP_BOUND_ANY_ORDER
} mp_bound_orders;

/* Returns "this-order" or "any-order", as plan files have it; "" for MP_BOUND_NO_ORDER. */
const char *mp_bound_orders_text(mp_bound_orders orders);

typedef struct mp_bound {
    int64_t ticks;   /* no plan within the budget takes less; at least every node once, in its fastest alternative */
    bool infeasible; /* true if no plan fits the budget; ticks is then the sum over nodes */
    mp_bound_orders orders;
    mp_bound_stage stage; /* the stage that proved it */
    int from, to; /* the nodes between whose first runs is the interval that proves most by itself. `from` -1: no interval; `to`
                   * -1: the end of the step. If no plan fits: the node at which memory does not suffice, or -1 */
    double multiplier; /* Lagrange multiplier at the start of this interval, in ticks per byte */
} mp_bound;

/* Computes the bound for plans whose peak_bytes is at most budget_bytes; options NULL: this order, effort 4. The same input
 * gives the same bound and report, unless `stop` ends it. Beyond 32,767 nodes only the interval from the end of forward and,
 * where nothing is marked and lifetimes are short, the sum over parts of the list (planner/bound/bound.h). MP_NOMEM. O(nodes *
 * edges / 64) time and O(nodes^2 / 4) bytes for the precedence relation, beyond 32,767 nodes O(graph) both; for each k of
 * effort some hundreds of minimum cuts, in practice about linear each, and linear programmes of about 10^8 rows * iterations.
 * Lagrangian relaxation (Everett 1963) of closure problems (Picard 1976); docs/internals/bound.md has all sources. */
mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err);
