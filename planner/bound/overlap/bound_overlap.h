/* bound_overlap.h - intervals between boundaries that may overlap, bounded together. For bound.c.
 *
 * What a node takes to run again between two boundaries is shared out among the intervals that contain that stretch; what is
 * held at a boundary is one choice for all intervals that begin there, and has to be there in every interval that ends there.
 * With prices on all three, intervals part, each a minimum cut, and any prices give a bound. A linear programme over all of
 * them finds good ones.
 */
#ifndef PLANNER_BOUND_OVERLAP_H
#define PLANNER_BOUND_OVERLAP_H

#include "memplan/bound_stage.h"
#include "planner/bound/interval/bound_interval.h"

typedef struct mp_bound_pair {
    int from, to; /* boundaries; to: the number of boundaries stands for the end */
} mp_bound_pair;

typedef struct mp_bound_overlap {
    mp_bound_interval *x;
    const mp_bound_options *options;
    int *nodes; /* the boundaries, each before the next */
    int n;
    size_t n_nodes, n_storages;
    int n_pairs;
    size_t pairs_capacity;
    mp_bound_pair *pairs;
    int64_t *room_bytes; /* per boundary */
    int64_t *bytes;      /* per boundary and storage: what it takes to hold it; 0: nothing, it is there; -1: it is no matter */
    int64_t *ticks;      /* per boundary and node: of a run between it and the next */
    bool *needed;        /* per pair and storage: some node of the interval reads it; a table for all pairs of boundaries */
    unsigned char *fate; /* per boundary and storage: what a search has settled, MP_BOUND_OPEN ..; all open at first */
    /* prices, scaled ticks, per pair and storage or node */
    int64_t *held, *reward, *run;
    int64_t *earned; /* per boundary, scaled ticks: what its room counts for; set by mp_bound_overlap_value */
    struct mp_bound_item *items;
} mp_bound_overlap;

/* Without pairs. The boundaries are copied. On any status released with mp_bound_overlap_clear before x. MP_INFEASIBLE (no
 * message): not even what a node needs has room. MP_NOMEM. O(boundaries^2 * graph). */
mp_status mp_bound_overlap_init(mp_bound_overlap *o, mp_bound_interval *x, const int *nodes, int n,
                                const mp_bound_options *options, mp_error *err);
void mp_bound_overlap_clear(mp_bound_overlap *o);
/* Adds an interval, unless it is among them. MP_NOMEM. */
mp_status mp_bound_overlap_add(mp_bound_overlap *o, mp_bound_pair pair, mp_error *err);
/* Room for the prices of the pairs there are, all zero. MP_NOMEM. */
mp_status mp_bound_overlap_make_room(mp_bound_overlap *o, mp_error *err);

/* Where the pair (from, to) has its place in `needed`. */
size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair);

/* Makes the shares of a node's runs, o->run, together the whole run in every stretch between boundaries: the interval between
 * neighbours gets what the others leave, which may be less than nothing. All of those have to be among the pairs. */
void mp_bound_overlap_share_out(mp_bound_overlap *o, size_t node);

/* At least so many scaled ticks are taken beyond first runs after nodes[0], each node before the next, by the present prices,
 * if what is settled holds; INT64_MAX: it can't. May be negative. A cut for each pair. */
int64_t mp_bound_overlap_value(mp_bound_overlap *o);

#endif
