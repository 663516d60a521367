/* mover.h - the state of a local search over orders of runs, and the functions that all moves share: draws, candidates,
 * relocation. */
#pragma once

#include "planner/anneal/runs/runs.h"
#include "planner/math/list.h"
#include "planner/order/ways.h"

typedef struct mp_mover {
    mp_runs *runs;
    uint64_t random;
    bool keeps_order; /* first runs stay in list order */
    int n_candidates; /* storages that can be recomputed or copied back */
    int *candidates;
    int64_t *weights; /* running sums of the candidates' bytes */
    bool draws_near;  /* prefer storages produced shortly before a position */
    int n_choices;    /* nodes with several compute alternatives */
    int *choices;
    mp_ways ways;
    int *list; /* scratch: runs or nodes that move together, at most MP_MOVE_LIST */
    int n_reruns,
        /* limits on the recomputations that an eviction may add: the usual one and the occasional one */
        n_reruns_deep;
    int reruns_left;       /* recomputations that the current move may still add */
    int64_t ticks_limit;   /* most ticks of the order after the current move */
    int64_t pending_ticks; /* ticks of the move's reserved runs that are not turned on yet */
    bool is_stuck;         /* set by the walk while the budget has been exceeded for long */
    bool has_given_up;     /* the current move exceeds ticks_limit or failed half-way */
} mp_mover;

/* True if `node` is a forward node that may be recomputed; false for -1 (none). */
bool mp_is_repeatable(const mp_graph *graph, int node);

/* On MP_OK release with mp_mover_free. The mover does not own the runs. MP_NOMEM. O(storages + list lengths). */
mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err);
void mp_mover_free(mp_mover *mover); /* a zeroed mover is allowed */
/* For local graphs (turn_around.h): from now on draws prefer storages produced shortly before a position, and an eviction adds
 * only few recomputations. */
void mp_mover_draw_near(mp_mover *mover);

/* Returns a random number in [0, 1), or in [0, n), from the common generator of all moves (splitmix64). */
double mp_mover_uniform(mp_mover *mover);
int mp_mover_below(mp_mover *mover, int n);
/* Each draws one item: a run; a recomputation; a position, usually one over the budget. Returns -1 if the draw fails. */
int mp_mover_any_run(mp_mover *mover);
int mp_mover_any_extra(mp_mover *mover);
int mp_mover_any_position(mp_mover *mover);
/* Draws a position over the budget with probability proportional to its excess. Precondition: such a position exists. */
int mp_mover_any_over(mp_mover *mover);
/* Draws a storage that is live at a position and read later, with probability proportional to its bytes. Sets *reader to its
 * next reader. Returns -1 if the draw fails. */
int mp_mover_any_live(mp_mover *mover, int position, int *reader);

/* Moves a run to just before another. Returns the run at its new place, or -1 if a data dependency or the fixed list order
 * forbids it. */
int mp_mover_relocate(mp_mover *mover, int run, int before);
/* Removes a run and the recomputations and copies that only this run needed. */
void mp_mover_drop(mp_mover *mover, int run);

/* ---- one random change of the order ---- */

/* Draws a position, preferably one over the budget, and a storage live there. Moves runs so that the storage is produced after
 * the position, or read for the last time before it. Returns false if that is impossible. */
bool mp_move_clear(mp_mover *mover);

/* Makes one move; the caller keeps or undoes it. Returns false if the drawn move is impossible, or if its recomputations exceed
 * ticks_limit. The latter is detected before most of the work. Partial changes can be undone. */
bool mp_move(mp_mover *mover, int64_t ticks_limit);

/* ---- moves that change the recomputation; each returns false if its draw is impossible ----
 *
 * The ejection chain of a swap follows Glover (1996).
 */

/* Recomputes inputs of a run that are not live there, recursively, each with probability `chance`. */
bool mp_move_rerun_inputs(mp_mover *mover, int run, double chance);

/* Each evicts at one position and recomputes before the next read: one storage or a few; the outputs of several neighbouring
 * nodes; or up to MP_MOVE_EVICT_CHEAP storages that are cheap to recompute. */
bool mp_move_evict(mp_mover *mover);
bool mp_move_evict_window(mp_mover *mover);
bool mp_move_evict_cheap(mp_mover *mover);
/* Removes a recomputation, sometimes its neighbours too, and the recomputations that only these needed. */
bool mp_move_restore(mp_mover *mover);
/* Restores a storage. If that exceeds the budget, evicts others: any storages, or only cheaper ones if the removed
 * recomputation was expensive. */
bool mp_move_swap(mp_mover *mover);
bool mp_move_swap_for_cheap(mp_mover *mover);

/* ---- moves of copies ---- */

/* Evicts storage s at a position and copies it back before its next reader. */
bool mp_move_copy(mp_mover *mover, int s, int position, int reader);
/* Moves the wait of a copy to the end of the copy, or issues the copy as early as its ticks require. */
bool mp_move_wait(mp_mover *mover);
/* Replaces a recomputation by a copy. */
bool mp_move_copy_instead(mp_mover *mover);
/* Recomputes a node before a run. The earlier run is dropped if nothing reads its outputs any more. Each input that is not live
 * there is recomputed too, with probability `deeper`. */
bool mp_move_rerun_later(mp_mover *mover, int node, int alternative, int before, double deeper, int earlier);
