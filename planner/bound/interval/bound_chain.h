/* bound_chain.h - finds the chain of disjoint intervals with the largest sum of bounds. Internal to the bound.
 *
 * Intervals without a common step contain different runs. The bounds of intervals (i, j], (j, k], ... therefore add up if i
 * precedes j, j precedes k, and so on. The possible boundaries, called points, are nodes with the largest memory shortage: one
 * from each range of the order.
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
    int n_candidates; /* sorted in a topological order */
    mp_bound_candidate *candidates;
    int n, most, *point; /* the points: indices of candidates, ascending */
    int64_t *single;     /* per point: bound of the interval from the point to the end */
    int64_t *rest;       /* per point: sum of the best chain that begins there */
    int *next;           /* per point: the next point of that chain; -1: none */
    int best_single;     /* start of the interval to the end with the largest bound; -1: none */
    int64_t best_ticks;  /* the bound of the interval from best_single */
    mp_bound_work work;  /* the part of the work spent on intervals to the end */
    int first;           /* start of the best chain; -1: none. Of equal chains, the shorter one */
    bool infeasible, stopped;
} mp_bound_chain;

/* Finds the best chain up to the first run of node `until` (-1: to the end). It tries 16 points per unit of options->effort,
 * then more around the best ones. On MP_OK release *out with mp_bound_chain_free (NULL is allowed), before the order. MP_NOMEM.
 * At most O(points^2) cuts, in practice a few per point. */
mp_status mp_bound_chain_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int until,
                             mp_bound_chain **out, mp_error *err);
void mp_bound_chain_free(mp_bound_chain *c);
MP_OWNER(mp_bound_chain_free, mp_bound_chain)

int mp_bound_chain_node(const mp_bound_chain *c, int point);
/* Returns true if the search must end: no plan fits, or the caller's `stop` returned true. */
bool mp_bound_chain_ended(mp_bound_chain *c);
