/* mover.h - the state of a local search over orders of runs, and what all its moves share: draws, candidates, relocation. */
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
    int64_t *weights; /* running sums over the candidates, by bytes */
    bool draws_near;  /* storages produced shortly before a position are drawn more often */
    int n_choices;    /* nodes that have several alternatives to be computed by */
    int *choices;
    mp_ways ways;
    int *list;                   /* work: runs or nodes that move together, MP_MOVE_LIST at most */
    int n_reruns, n_reruns_deep; /* how many recomputations an eviction may add, mostly and at times */
    int reruns_left;             /* how many more recomputations the current move may add */
    int64_t ticks_limit;         /* most ticks of the order after the current move */
    int64_t pending_ticks;       /* ticks of the move's new runs that are not yet on */
    bool is_stuck;               /* true while the budget has been exceeded for long: set by the walk */
    bool has_given_up;           /* true if the current move exceeds ticks_limit, or has failed half way */
} mp_mover;

/* True if `node` is a forward node that may be recomputed; false for -1 (none). */
bool mp_is_repeatable(const mp_graph *graph, int node);

/* On MP_OK release with mp_mover_free; the runs stay the caller's. MP_NOMEM. O(storages + list lengths). */
mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err);
void mp_mover_free(mp_mover *mover); /* a zeroed mover is allowed */
/* For local graphs (turn_around.h): from now on storages produced shortly before a position are drawn more often, and an
 * eviction adds only few recomputations. */
void mp_mover_draw_near(mp_mover *mover);

/* Draws a number in [0, 1), or in [0, n), from the generator behind all moves (splitmix64). */
double mp_mover_uniform(mp_mover *mover);
int mp_mover_below(mp_mover *mover, int n);
/* Each draws one: a run; a recomputation; a position, mostly one over the budget. Returns -1 if the draw fails. */
int mp_mover_any_run(mp_mover *mover);
int mp_mover_any_extra(mp_mover *mover);
int mp_mover_any_position(mp_mover *mover);
/* Draws a position over the budget, with a probability in proportion to its excess. Precondition: there is such a position. */
int mp_mover_any_over(mp_mover *mover);
/* Draws a storage that is live at a position and read later, in proportion to its bytes; sets *reader to its next reader.
 * Returns -1 if the draw fails. */
int mp_mover_any_live(mp_mover *mover, int position, int *reader);

/* Moves a run to just before another. Returns the run there, or -1 if the data flow, or the order to be kept, forbids it. */
int mp_mover_relocate(mp_mover *mover, int run, int before);
/* Removes a run, and the recomputations and copies that only it needed. */
void mp_mover_drop(mp_mover *mover, int run);

/* ---- one random change of the order, as a local search tries it ---- */

/* Draws a position, one over the budget if there is any, and a storage that is live there. Moves runs so that the storage is
 * produced only after the position, or read for the last time before it. Returns false if that is impossible. */
bool mp_move_clear(mp_mover *mover);

/* Makes one move, which is not yet kept. Returns false if the drawn move is impossible, or if its recomputations exceed
 * ticks_limit, which is found before most of the work is done. Whatever has changed then can be undone. */
bool mp_move(mp_mover *mover, int64_t ticks_limit);

/* ---- moves that change what is recomputed; each returns false if its draw is impossible ----
 *
 * The ejection chain of a swap is Glover's (1996).
 */

/* Recomputes, with some chance each and recursively, the inputs of a run that are not live there. */
bool mp_move_rerun_inputs(mp_mover *mover, int run, double chance);

/* Evicts at one position, with recomputation before the next read: one storage or a few; the results of several neighbouring
 * nodes; or up to MP_MOVE_EVICT_CHEAP storages that are cheap to recompute. */
bool mp_move_evict(mp_mover *mover);
bool mp_move_evict_window(mp_mover *mover);
bool mp_move_evict_cheap(mp_mover *mover);
/* Removes a recomputation, at times its neighbours too, and the recomputations that only these needed. */
bool mp_move_restore(mp_mover *mover);
/* Restores a storage. If the budget is then exceeded, evicts others: any, or, if the removed recomputation was expensive,
 * only cheaper ones. */
bool mp_move_swap(mp_mover *mover);
bool mp_move_swap_for_cheap(mp_mover *mover);

/* ---- moves of copies ---- */

/* Evicts storage s at a position, and brings a copy of it back before its next reader. */
bool mp_move_copy(mp_mover *mover, int s, int position, int reader);
/* Waits for a copy once it has ended, or issues it as early as its ticks ask for. */
bool mp_move_wait(mp_mover *mover);
/* Puts a copy in the place of a recomputation. */
bool mp_move_copy_instead(mp_mover *mover);
/* Computes a node again before a run, in the place of an earlier run, which is dropped if nothing reads it any more. Each
 * input that is not live there is computed again too with this chance. */
bool mp_move_rerun_later(mp_mover *mover, int node, int alternative, int before, double deeper, int earlier);
