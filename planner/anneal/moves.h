/* moves.h - changes to an order of runs at random, as a local search tries them. */
#ifndef PLANNER_MOVES_H
#define PLANNER_MOVES_H

#include "planner/anneal/runs/runs.h"

typedef struct mp_mover {
    mp_runs *runs;
    uint64_t random;
    bool keeps_order; /* first runs stay where they are */
    bool only_orders; /* nothing but first runs moves */
    int n_candidates; /* storages that can be made again */
    int *candidates;
    int64_t *weights; /* running sums over the candidates, by bytes */
    int n_choices;    /* nodes that have several forms */
    int *choices;
    int *extra;    /* room for a list of runs */
    int few, many; /* runs that an eviction may add, mostly and at times: where nodes read much, chains of reruns explode */
    int left;      /* how many more runs the move at hand may add */
    int64_t most_ticks, pending_ticks; /* what the move at hand may come to; of its runs that are not turned on yet */
    bool has_given_up;                 /* it comes to more */
} mp_mover;

/* Whether a node is a forward node that may run again; -1: no. */
bool mp_can_rerun(const mp_graph *graph, int node);

/* On MP_OK release with mp_mover_free; the runs stay the caller's. MP_NOMEM. O(storages). */
mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err);
void mp_mover_free(mp_mover *mover); /* a zeroed one is fine */

/* Makes one move, not yet kept. False: what was drawn cannot be done, or its reruns come to more than most_ticks in all, which
 * is known before most of its work is done (nothing has changed, or what has can be undone). */
bool mp_move(mp_mover *mover, int64_t most_ticks);

/* The generator behind the moves (splitmix64): a number in [0, 1). */
double mp_mover_uniform(mp_mover *mover);

#endif
