/* mover.h - the state of a local search over orders of runs, and the functions that all moves share: draws, candidates,
 * relocation. */
#pragma once

#include "planner/anneal/runs/runs.h"
#include "planner/math/list.h"
#include "planner/order/ways.h"

typedef struct mp_mover {
    mp_runs *runs;
    uint64_t random;
    bool keeps_order; /* the first runs of forward nodes stay in list order */
    int n_candidates; /* storages that can be recomputed or copied back */
    int *candidates;
    int64_t *weights; /* per candidate: the sum of the bytes of this candidate and all earlier ones, for draws in proportion to
                         bytes */
    bool draws_near;  /* draws prefer storages produced shortly before the drawn position */
    int n_choices;    /* nodes with several compute alternatives */
    int *choices;
    mp_ways ways;
    int *list; /* scratch: runs or nodes that one move handles together, at most MP_MOVE_LIST */
    int n_reruns,
        /* limits on the recomputations that one eviction may add: n_reruns in most moves, n_reruns_deep in a few */
        n_reruns_deep;
    int reruns_left;       /* recomputations that the current move may still add */
    int64_t ticks_limit;   /* the move is given up if the order would take more ticks */
    int64_t pending_ticks; /* ticks of the runs that the move has reserved and not yet turned on */
    bool is_stuck;         /* set by the walk while the budget has been exceeded for long */
    bool has_given_up;     /* the current move exceeds ticks_limit or failed half-way */
} mp_mover;

/* True if `node` is a forward node that may be recomputed. False if `node` is -1. */
bool mp_is_repeatable(const mp_graph *graph, int node);

/* Creates the state of a local search over the order in `runs`, which it does not own. On MP_OK release with mp_mover_free.
 * MP_NOMEM. O(storages + list lengths). */
mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err);
void mp_mover_free(mp_mover *mover); /* a zeroed mover is allowed */
/* For local graphs (turn_around.h): from now on draws prefer storages produced shortly before a position, and an eviction adds
 * only few recomputations. */
void mp_mover_draw_near(mp_mover *mover);

/* Return a random number: uniform in [0, 1), and an integer below n. All moves share one generator (splitmix64). */
double mp_mover_uniform(mp_mover *mover);
int mp_mover_below(mp_mover *mover, int n);
/* Draw a random run, a random recomputation, and a random position. Positions over the budget are preferred. Return -1 if the
 * draw fails. */
int mp_mover_any_run(mp_mover *mover);
int mp_mover_any_extra(mp_mover *mover);
int mp_mover_any_position(mp_mover *mover);
/* Draws a position over the budget with probability proportional to its excess. Precondition: such a position exists. */
int mp_mover_any_over(mp_mover *mover);
/* Draws a storage that is live at a position and read later, with probability proportional to its bytes. Sets *reader to its
 * next reader. Returns -1 if the draw fails. */
int mp_mover_any_live(mp_mover *mover, int position, int *reader);

/* Moves a run to the place just before the run `before`. Returns the run at its new place, or -1 if a data dependency or the
 * fixed list order forbids the move. */
int mp_mover_relocate(mp_mover *mover, int run, int before);
/* Removes a run and the recomputations and copies that only this run needed. */
void mp_mover_drop(mp_mover *mover, int run);

/* ---- one random change of the order ---- */

/* Draws a position, preferably one over the budget, and a storage that is live there. Moves runs so that the storage is no
 * longer live at the position: it is then produced later, or its last read is earlier. Returns false if no such move is
 * possible. */
bool mp_move_clear(mp_mover *mover);

/* Makes one random change of the order. The caller then keeps it (mp_runs_keep) or undoes it (mp_runs_undo). Returns false if
 * the drawn change is impossible, or if its recomputations exceed ticks_limit. The excess of ticks is detected before most of
 * the work. After false, the caller must undo partial changes. */
bool mp_move(mp_mover *mover, int64_t ticks_limit);

/* ---- moves that change which nodes are recomputed. Each returns false if its random draw is impossible ----
 *
 * The ejection chain of a swap follows Glover (1996). */

/* Recomputes inputs of a run that are not live at its position, each with probability `chance`, and likewise the inputs of
 * these recomputations. */
bool mp_move_rerun_inputs(mp_mover *mover, int run, double chance);

/* Evict storages at a position and recompute them before their next read. The functions evict one storage or a few; the
 * outputs of several neighbouring nodes; and up to MP_MOVE_EVICT_CHEAP storages that are cheap to recompute. */
bool mp_move_evict(mp_mover *mover);
bool mp_move_evict_window(mp_mover *mover);
bool mp_move_evict_cheap(mp_mover *mover);
/* Removes a recomputation, so that its outputs stay live instead. Sometimes also removes neighbouring recomputations.
 * Recomputations that only served the removed ones are removed too. */
bool mp_move_restore(mp_mover *mover);
/* Removes the recomputation of a storage. If the order then exceeds the budget, evicts other storages. If the removed
 * recomputation was expensive, only storages that are cheaper to recompute are evicted. */
bool mp_move_swap(mp_mover *mover);
bool mp_move_swap_for_cheap(mp_mover *mover);

/* ---- moves that add or change copies to another tier and back ---- */

/* Evicts storage s at a position and copies it back before its next reader. */
bool mp_move_copy(mp_mover *mover, int s, int position, int reader);
/* Draws a copy. Moves the step that waits for it to the end of the copy, or issues the copy as early as its ticks require. */
bool mp_move_wait(mp_mover *mover);
/* Replaces the recomputation of a storage by a copy to another tier and back. */
bool mp_move_copy_instead(mp_mover *mover);
/* Recomputes a node before a run. Each input that is not live before that run is recomputed too, with probability `deeper`.
 * The node's run `earlier` is dropped if nothing reads its outputs any more. */
bool mp_move_rerun_later(mp_mover *mover, int node, int alternative, int before, double deeper, int earlier);
