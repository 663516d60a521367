/* bound_chain.h - the chain of disjoint intervals whose bounds have the largest sum. For bound.c.
 *
 * Runs in intervals that share no step are different runs, so the ticks of intervals (i, j], (j, k], ... add up wherever i
 * precedes j, j precedes k, and so on. Points, the possible boundaries, are nodes at which memory is shortest: one of each
 * stretch of the order.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"

/* A node at which memory is short: the live-in storages exceed the free memory. */
typedef struct mp_bound_candidate {
    int node;
    int64_t shortage_bytes, free_bytes;
} mp_bound_candidate;

typedef struct mp_bound_chain {
    mp_pool *pool; /* of all arrays */
    const mp_precedence *order;
    mp_bound_options options;
    mp_bound_interval *interval;
    int n_candidates; /* in an order that obeys "before" */
    mp_bound_candidate *candidates;
    int n, most, *point; /* the points among them, ascending */
    int64_t *single;     /* per point: the interval from there to the end */
    int64_t *rest;       /* per point: the best chain that begins there */
    int *next;           /* ... and its next point, -1: none */
    int best_single;     /* the node whose interval to the end takes the most, -1: none ... */
    int64_t best_ticks;  /* ... and that */
    mp_bound_work work;  /* of its intervals' work, what was done for intervals to the end */
    int first;           /* the point that the best of all chains begins at, -1: none; the shorter of two that are as good */
    bool infeasible, stopped;
} mp_bound_chain;

/* Finds the best chain up to the first run of node `until` (-1: to the end); 16 points, and further ones around the best, for
 * each of options->effort. On MP_OK *out is released with mp_bound_chain_free (NULL is fine) before the order. MP_NOMEM.
 * O(points^2) cuts at most, in practice a few per point. */
mp_status mp_bound_chain_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int until,
                             mp_bound_chain **out, mp_error *err);
void mp_bound_chain_free(mp_bound_chain *c);
MP_OWNER(mp_bound_chain_free, mp_bound_chain)

int mp_bound_chain_node(const mp_bound_chain *c, int point);
/* Returns true if the search has to end: no plan fits, or the caller's `stop` said so. */
bool mp_bound_chain_ended(mp_bound_chain *c);
