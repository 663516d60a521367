/* bound_overlap.h - intervals between boundaries that may overlap, bounded together. For bound.c.
 *
 * What a node takes to run again between two boundaries is shared out among the intervals that contain that stretch; what is
 * held at a boundary is one choice for all intervals that begin there, and has to be there in every interval that ends there.
 * With prices on all three, intervals part, each a minimum cut, and any prices give a bound. A linear programme over all of
 * them finds good ones.
 */
#ifndef PLANNER_BOUND_OVERLAP_H
#define PLANNER_BOUND_OVERLAP_H

#include "planner/bound.h"
#include "planner/bound_interval.h"

typedef struct mp_bound_pair {
    int from, to; /* boundaries; to: the number of boundaries stands for the end */
} mp_bound_pair;

typedef struct mp_bound_overlap {
    mp_bound_interval *x;
    const mp_bound_options *options;
    const int *nodes; /* the boundaries, each before the next */
    int n;
    size_t n_nodes, n_storages;
    int n_pairs;
    size_t pairs_capacity;
    mp_bound_pair *pairs;
    int64_t *room_bytes; /* per boundary */
    int64_t *bytes;      /* per boundary and storage: what it takes to hold it; 0: nothing, it is there; -1: it is no matter */
    int64_t *ticks;      /* per boundary and node: of a run between it and the next */
    bool *needed;        /* per pair and storage: some node of the interval reads it; a table for all pairs of boundaries */
    /* prices, scaled ticks, per pair and storage or node */
    int64_t *held, *reward, *run;
} mp_bound_overlap;

/* Where the pair (from, to) has its place in `needed`. */
size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair);

/* Sets prices by a linear programme over the pairs there are; *solved false: there is none that can be solved. Then, if `more`
 * is not NULL, for all pairs there are not, how far its solution falls short in them: more[from * (n + 1) + to]. MP_NOMEM. */
mp_status mp_bound_overlap_prices(mp_bound_overlap *o, double *more, bool *solved, mp_error *err);
/* How many rows a pair adds to that programme, at most about. O(graph). */
int64_t mp_bound_overlap_rows(const mp_bound_order *order);

/* Makes the shares of a node's runs, o->run, such that those that contain a stretch are together at most the whole run: what is
 * too much is cut, what is left goes to the shortest interval. All intervals between neighbours have to be among the pairs. */
void mp_bound_overlap_share_out(mp_bound_overlap *o, size_t node);

/* At least *ticks are taken beyond first runs after nodes[0], each node before the next. `rounds` programmes with at most about
 * `most_rows` rows. worth[i], scaled: what the room at boundary i counts for in the best of them. MP_INFEASIBLE (no message):
 * no plan fits. MP_NOMEM. */
mp_status mp_bound_overlap_within(mp_bound_interval *x, const int *nodes, int n, int64_t most_rows, int rounds,
                                  const mp_bound_options *options, int64_t *ticks, int64_t *worth, mp_error *err);

#endif
