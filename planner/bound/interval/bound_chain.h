/* bound_chain.h - the chain of disjoint intervals whose bounds have the largest sum. For bound.c.
 *
 * Runs in intervals that share no step are different runs, so the ticks of intervals (i, j], (j, k], ... add up if i precedes
 * j, j precedes k, and so on. The possible boundaries, called points, are nodes at which memory is shortest: one from each
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
    mp_pool *pool; /* owns all arrays */
    const mp_precedence *order;
    mp_bound_options options;
    mp_bound_interval *interval;
    int n_candidates; /* in a topological order of the precedence relation */
    mp_bound_candidate *candidates;
    int n, most, *point; /* the points: indices of candidates, ascending */
    int64_t *single;     /* per point: the bound of the interval from it to the end */
    int64_t *rest;       /* per point: the sum of the best chain that begins at it */
    int *next;           /* per point: the next point of that chain, -1: none */
    int best_single;     /* the node whose interval to the end has the largest bound, -1: none */
    int64_t best_ticks;  /* the bound of the interval from best_single */
    mp_bound_work work;  /* the part of the work that was spent on intervals to the end */
    int first;           /* the point at which the best of all chains begins, -1: none; of equal chains the shorter one */
    bool infeasible, stopped;
} mp_bound_chain;

/* Finds the best chain up to the first run of node `until` (-1: to the end). It tries 16 points for each unit of
 * options->effort, then further ones around the best. On MP_OK *out is released with mp_bound_chain_free (NULL is fine)
 * before the order. MP_NOMEM. At most O(points^2) cuts, in practice a few per point. */
mp_status mp_bound_chain_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int until,
                             mp_bound_chain **out, mp_error *err);
void mp_bound_chain_free(mp_bound_chain *c);
MP_OWNER(mp_bound_chain_free, mp_bound_chain)

int mp_bound_chain_node(const mp_bound_chain *c, int point);
/* Returns true if the search must end: no plan fits, or the caller's `stop` returned true. */
bool mp_bound_chain_ended(mp_bound_chain *c);
