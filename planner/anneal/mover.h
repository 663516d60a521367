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
