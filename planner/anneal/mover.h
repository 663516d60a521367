/* mover.h - the state of a local search over orders of runs. Declares the functions that all moves use: random draws, and
 * moving a run to another position. */
#pragma once

#include "estimator/base/list.h"
#include "planner/anneal/runs/runs.h"
#include "planner/order/ways.h"

typedef struct mp_mover {
    mp_runs *runs;
    uint64_t random;
    bool keeps_order; /* true: moves may not reorder the first runs of forward nodes, which stay in list order */
    int n_candidates; /* number of storages that can be recomputed or copied back */
    int *candidates;
    /* per storage that can be recomputed or copied back: prefix sum of bytes, so that a storage is drawn in proportion to its
     * bytes */
    int64_t *weights;
    bool draws_near; /* true: random draws prefer storages that were produced shortly before the drawn position */
    int n_choices;   /* number of nodes with several alternatives that compute */
    int *choices;
    mp_ways ways;
    int *list; /* scratch: the runs or nodes that one move changes together, at most MP_MOVE_LIST */
    int n_reruns,
        /* most recomputations that one eviction may add: n_reruns in most moves, n_reruns_deep in a few */
        n_reruns_deep;
    int reruns_left;     /* number of recomputations that the current move may still add */
    int64_t ticks_limit; /* a move is abandoned if the resulting order would take more ticks than this limit */
    /* ticks of the runs that the current move will insert: their positions are reserved, but they are not in the order yet */
    int64_t pending_ticks;
    bool is_stuck;     /* set by the walk; true: the order has exceeded the memory budget for many moves in a row */
    bool has_given_up; /* true: the current move has been abandoned: it exceeded ticks_limit, or one of its changes failed */
} mp_mover;

/* True if `node` is a forward node that may be recomputed. False if `node` is -1. */
bool mp_is_repeatable(const mp_graph *graph, int node);

/* Creates the state of a local search over the order in `runs`. The caller keeps ownership of `runs`. On MP_OK release with
 * mp_mover_free. MP_NOMEM. O(storages + list lengths). */
mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err);
void mp_mover_free(mp_mover *mover); /* a zeroed mover is allowed */
/* Adapts the search to a local graph (turn_around.h): random draws then prefer storages produced shortly before a position, and
 * an eviction adds only few recomputations. */
void mp_mover_draw_near(mp_mover *mover);

/* mp_mover_uniform returns a random number uniform in [0, 1), mp_mover_below a random integer in [0, n). All moves share one
 * random generator (splitmix64). */
double mp_mover_uniform(mp_mover *mover);
int mp_mover_below(mp_mover *mover, int n);
/* mp_mover_any_run returns a random run, mp_mover_any_extra a random recomputation. mp_mover_any_position returns a random
 * position and prefers positions at which memory exceeds the budget. All return -1 if nothing was found. */
int mp_mover_any_run(mp_mover *mover);
int mp_mover_any_extra(mp_mover *mover);
int mp_mover_any_position(mp_mover *mover);
/* Draws a position at which the live bytes exceed the budget, with probability proportional to the excess. Precondition: such a
 * position exists. */
int mp_mover_any_over(mp_mover *mover);
/* Draws a storage that is live at a position and read later, with probability proportional to its bytes. Sets *reader to the
 * next run that reads it. Returns -1 if no storage was found. */
int mp_mover_any_live(mp_mover *mover, int position, int *reader);

/* Moves a run to the position just before the run `before`. Returns the index of the moved run, or -1 if a data dependency or
 * the fixed list order forbids the move. */
int mp_mover_relocate(mp_mover *mover, int run, int before);
/* Removes a run, and the recomputations and copies whose only purpose was to provide inputs of this run. */
void mp_mover_drop(mp_mover *mover, int run);

/* ---- moves: each makes one random change of the order of runs ---- */

/* Draws a position, preferably one over the budget, and a storage that is live at this position. Moves runs so that the storage
 * is no longer live there: it is produced after the position, or last read before it. Returns false if no such move is
 * possible. */
bool mp_move_clear(mp_mover *mover);

/* Makes one random change of the order. The caller then keeps it (mp_runs_keep) or undoes it (mp_runs_undo). Returns false if
 * the drawn change is impossible, or if the order would take more ticks than ticks_limit. Too many ticks are detected before
 * most of the work is done. After false, the caller must undo partial changes. */
bool mp_move(mp_mover *mover, int64_t ticks_limit);

/* ---- moves that change which nodes are recomputed. Each returns false if the change that it drew is impossible ----
 *
 * mp_move_swap removes one recomputation and evicts other storages in return, which is an ejection chain (Glover 1996). */

/* Finds the inputs of a run that are not live at its position. Recomputes each with probability `chance`, and recomputes
 * missing inputs of these recomputations in the same way. */
bool mp_move_rerun_inputs(mp_mover *mover, int run, double chance);

/* These moves evict storages at a position and recompute them before their next read. mp_move_evict evicts one storage or a
 * few. mp_move_evict_window evicts the outputs of several neighbouring nodes. mp_move_evict_cheap evicts up to
 * MP_MOVE_EVICT_CHEAP storages that are cheap to recompute. */
bool mp_move_evict(mp_mover *mover);
bool mp_move_evict_window(mp_mover *mover);
bool mp_move_evict_cheap(mp_mover *mover);
/* Removes a recomputation, so that the earlier instance of its outputs stays live. Sometimes also removes neighbouring
 * recomputations. A recomputation that only provided inputs of a removed one is removed too. */
bool mp_move_restore(mp_mover *mover);
/* Removes the recomputation of a storage. If the order then exceeds the budget, evicts other storages. If the removed
 * recomputation was expensive, only storages that are cheaper to recompute are evicted. */
bool mp_move_swap(mp_mover *mover);
bool mp_move_swap_for_cheap(mp_mover *mover);

/* ---- moves that add or change copies to another tier and back ---- */

/* Evicts storage s at a position and copies it back before its next reader. */
bool mp_move_copy(mp_mover *mover, int s, int position, int reader);
/* Draws a copy. Moves the wait for the copy to the step at which the copy ends. Or moves the begin of the copy to an earlier
 * position, so that the copy ends in time. */
bool mp_move_wait(mp_mover *mover);
/* Replaces the recomputation of a storage by a copy to another tier and back. */
bool mp_move_copy_instead(mp_mover *mover);
/* Inserts a recomputation of a node before a run. Inputs that are not live before that run are recomputed too, each with
 * probability `deeper`. Then removes `earlier`, a previous run of the node, if no run reads its outputs any more. */
bool mp_move_rerun_later(mp_mover *mover, int node, int alternative, int before, double deeper, int earlier);
