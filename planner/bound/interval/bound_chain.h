/* bound_chain.h - internal to the bound: divides a step into disjoint intervals so that the sum of their bounds is as large as
 * possible.
 *
 * An interval (i, j] contains the runs after the first run of node i, up to the first run of node j. The bounds of a chain (i,
 * j], (j, k], ... add up, because these intervals have no run in common. The nodes that may be boundaries are called points. At
 * a point memory is short. The order is divided into ranges, and the point of a range is the node with the largest shortage. */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

/* A node at which memory is short: if nothing were recomputed, the live storages would exceed the free memory. */
typedef struct mp_bound_candidate {
    int node;
    int64_t shortage_bytes, free_bytes;
} mp_bound_candidate;

typedef struct mp_bound_chain {
    mp_pool *pool; /* owns all arrays */
    const mp_precedence *order;
    mp_bound_options options;
    mp_bound_interval *interval;
    int n_candidates; /* sorted in a topological order */
    mp_bound_candidate *candidates;
    /* the points. n: their number; most: the size of the array; point: their indices in `candidates`, ascending */
    int n, most, *point;
    int64_t *single;    /* per point: the bound in ticks of the interval from this point to the end */
    int64_t *rest;      /* per point: the largest sum of bounds of any chain that begins at this point */
    int *next;          /* per point: the next point of the best chain that begins here; -1: none */
    int best_single;    /* the point with the largest `single`; -1: none */
    int64_t best_ticks; /* `single` of the point best_single */
    mp_bound_work work; /* the work for the bounds in `single` only */
    /* the point at which the best chain starts; -1: none. Of equally good chains, the shorter one is chosen */
    int first;
    bool infeasible, stopped;
} mp_bound_chain;

/* Finds the chain of intervals with the largest sum of bounds, up to the first run of node `until` (-1: up to the end of the
 * step). It tries 16 points per unit of options->effort, then more points near those of the best chain. On MP_OK release *out
 * with mp_bound_chain_free (NULL is allowed), before the order. MP_NOMEM. At most O(points^2) minimum cuts, in practice a few
 * per point. */
mp_status mp_bound_chain_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int until,
                             mp_bound_chain **out, mp_error *err);
void mp_bound_chain_free(mp_bound_chain *c);
MP_OWNER(mp_bound_chain_free, mp_bound_chain)

int mp_bound_chain_node(const mp_bound_chain *c, int point);
/* True if the search for chains must end, because no plan fits the budget or the caller's `stop` returned true. */
bool mp_bound_chain_ended(mp_bound_chain *c);
