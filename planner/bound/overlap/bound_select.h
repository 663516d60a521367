/* bound_select.h - internal to the bound: chooses the boundaries of overlapping intervals (bound_overlap.h), and then runs
 * branch and bound with the best boundaries. */
#pragma once

#include "planner/bound/interval/bound_chain.h"

enum { MP_BOUND_MOST_SPLITS = 4 };

/* Inserts further boundaries between `nodes` as long as this raises the bound of the coupled intervals (bound_couple.h). For
 * each insertion, several nodes are tried with few subgradient steps, and the best one is kept. `nodes` must have space for
 * MP_BOUND_MOST_SPLITS more. On entry *ticks is the bound without coupling; on return it is the best bound found. MP_NOMEM. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err);

/* The best boundaries found so far for overlapping intervals. Each stage of the bound passes this struct to the next stage. It
 * must be zero before the first stage. */
typedef struct mp_bound_selection {
    int *nodes, n;
    int64_t value; /* the bound in scaled ticks that the boundaries of this selection prove */
    bool tried;    /* true: some linear programme with more than one boundary was solved */
    bool thorough; /* set by the caller. true: branch and bound will use these boundaries, so they are chosen with more work */
    /* state during one call of mp_bound_select: */
    /* rows: largest number of rows of a linear programme; rows_per_pair: estimated number of rows per interval */
    int64_t rows, rows_per_pair;
    int64_t work_left; /* work left for linear programmes: iterations * rows (linear.h) */
    /* index of the next candidate to try, in the order of spread_place */
    int place;
    bool is_done;    /* true: mp_bound_select was not ended early */
    bool *looked_at; /* per candidate: it was already tried as a boundary */
} mp_bound_selection;

/* Raises *ticks by the bound of overlapping intervals (bound_overlap.h). One attempt starts from the boundaries `nodes`,
 * another from the boundaries in `selection`. Both attempts add further boundaries. MP_NOMEM. */
mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, mp_bound_selection *selection, int64_t *ticks,
                          mp_error *err);
/* True if branch and bound may raise the bound `ticks`. Two conditions must hold. Memory is short at several boundaries, or the
 * linear programmes are small. The bound of the selection is close to `ticks`. */
bool mp_bound_select_is_promising(mp_bound_chain *c, const mp_bound_selection *selection, int64_t ticks);
/* Raises *ticks by branch and bound over the storages that are live at the selected boundaries (bound_overlap.h). If few
 * boundaries are selected, adds the nodes with the largest shortage of memory. MP_NOMEM. */
mp_status mp_bound_select_tree(mp_bound_chain *c, const mp_bound_selection *selection, int64_t *ticks, mp_error *err);
void mp_bound_selection_clear(mp_bound_selection *selection);
