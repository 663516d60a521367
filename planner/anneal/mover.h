/* mover.h - the state of a local search over orders of runs, and what all its moves share: draws, candidates, relocation. */
#pragma once

#include "planner/anneal/runs/runs.h"
#include "planner/math/list.h"

typedef struct mp_mover {
    mp_runs *runs;
    uint64_t random;
    bool keeps_order; /* first runs stay in list order */
    int n_candidates; /* storages that can be recomputed */
    int *candidates;
    int64_t *weights; /* running sums over the candidates, by bytes */
    bool draws_near;  /* such storages are drawn by how long before a position they were produced */
    int n_choices;    /* nodes that have several alternatives */
    int *choices;
    int *list;                   /* work: runs or nodes that move together, MP_MOVE_LIST at most */
    int n_reruns, n_reruns_deep; /* recomputations that an eviction may add, mostly and at times: less where nodes read much */
    int reruns_left;             /* how many more the move at hand may add */
    int64_t ticks_limit;         /* the order with the move at hand may take so many ... */
    int64_t pending_ticks;       /* ... these included, of its runs that are not turned on yet */
    bool has_given_up;           /* it takes more */
} mp_mover;

/* True if `node` is a forward node that may be recomputed; false for -1 (none). */
bool mp_is_repeatable(const mp_graph *graph, int node);

/* On MP_OK release with mp_mover_free; the runs stay the caller's. MP_NOMEM. O(storages + list lengths). */
mp_status mp_mover_new(mp_runs *runs, uint64_t seed, bool keeps_order, mp_mover *out, mp_error *err);
void mp_mover_free(mp_mover *mover); /* a zeroed one is fine */
/* For local graphs (turn_around.h): storages are drawn by how long before a position they were produced, near ones more often,
 * and evictions add few recomputations. */
void mp_mover_draw_near(mp_mover *mover);

/* Draws a number in [0, 1), or in [0, n), from the generator behind all moves (splitmix64). */
double mp_mover_uniform(mp_mover *mover);
int mp_mover_below(mp_mover *mover, int n);
/* Draws a run; a recomputation; a position, mostly one that is over the budget if any is. -1: none was met. */
int mp_mover_any_run(mp_mover *mover);
int mp_mover_any_extra(mp_mover *mover);
int mp_mover_any_position(mp_mover *mover);
/* Draws a position over the budget, in proportion to its excess; there must be one. */
int mp_mover_any_over(mp_mover *mover);
/* Draws a storage that is live at a position and read later, in proportion to its bytes, and tells its next reader. -1: none
 * was met. */
int mp_mover_any_live(mp_mover *mover, int position, int *reader);

/* Moves a run to before another one. The run there then; -1: the data flow, or the order to be kept, forbids it. */
int mp_mover_relocate(mp_mover *mover, int run, int before);
/* Removes a run, and the recomputations that only it needed. */
void mp_mover_drop(mp_mover *mover, int run);

/* ---- one random change of the order, as a local search tries it ---- */

/* Draws a position, over the budget if any is, and a storage that is live there: it is produced only after the position, or
 * read for the last time before it, and all runs that have to move with that do. False: what was drawn cannot be done. */
bool mp_move_clear(mp_mover *mover);

/* Makes one move, not yet kept. False: what was drawn cannot be done, or its recomputations take the order above ticks_limit,
 * which is known before most of the work is done (nothing has changed, or what has can be undone). */
bool mp_move(mp_mover *mover, int64_t ticks_limit);

/* ---- the moves that change what is recomputed; false: what was drawn cannot be done ----
 *
 * The ejection chain of a swap is Glover's (1996). */

/* Recomputes, with some chance each and recursively, the inputs of a run that are not live there. */
bool mp_move_rerun_inputs(mp_mover *mover, int run, double chance);

/* Evicts at one position, and recomputes before the next read: one storage or a few; the results of neighbouring nodes,
 * together; up to MP_MOVE_EVICT_CHEAP storages that are cheap to recompute. */
bool mp_move_evict(mp_mover *mover);
bool mp_move_evict_window(mp_mover *mover);
bool mp_move_evict_cheap(mp_mover *mover);
/* Removes a recomputation, and at times its neighbours, and the recomputations that only they needed. */
bool mp_move_restore(mp_mover *mover);
/* Restores; if the budget is then exceeded, evicts other storages: any, or, for an expensive recomputation, only cheaper ones.
 */
bool mp_move_swap(mp_mover *mover);
bool mp_move_swap_for_cheap(mp_mover *mover);
