/* bound_select.h - internal to the bound: chooses the boundaries of overlapping intervals (bound_overlap.h), and runs branch
 * and bound over the best boundaries. */
#pragma once

#include "planner/bound/interval/bound_chain.h"

enum { MP_BOUND_MOST_SPLITS = 4 };

/* Inserts further boundaries between `nodes` where this raises the coupled bound (bound_couple.h) of all intervals. Each
 * inserted boundary is the best of several that are tried with few rounds. `nodes` must have space for MP_BOUND_MOST_SPLITS
 * more. On entry *ticks is the uncoupled bound; on return, the best bound found. MP_NOMEM. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err);

/* The best boundaries found for overlapping intervals. Each stage of the bound passes them to the next. Zero it first. */
typedef struct mp_bound_selection {
    int *nodes, n;
    int64_t value; /* bound in scaled ticks that these boundaries prove */
    bool tried;    /* a linear programme with more than one boundary was solved */
    bool thorough; /* set by the caller: branch and bound follows */
    /* state of the current call of mp_bound_select: */
    int64_t rows, rows_per_pair; /* most rows of a linear programme; estimated rows per interval */
    int64_t work_left;           /* work left for linear programmes: iterations * rows (linear.h) */
    int place;       /* candidates are tried in a sequence that fills their list evenly; the next index in this sequence */
    bool is_done;    /* mp_bound_select was not ended early */
    bool *looked_at; /* per candidate: it has been tried as a boundary */
} mp_bound_selection;

/* Raises *ticks by the bound of overlapping intervals (bound_overlap.h). It starts from `nodes`, then from the boundaries of
 * the selection, and adds further boundaries to each. MP_NOMEM. */
mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, mp_bound_selection *selection, int64_t *ticks,
                          mp_error *err);
/* True if branch and bound may raise the bound `ticks`. Memory must be short at several boundaries, or the linear programmes
 * small. In addition, the selection's bound must be close to `ticks`. */
bool mp_bound_select_is_promising(mp_bound_chain *c, const mp_bound_selection *selection, int64_t ticks);
/* Raises *ticks by branch and bound over the storages live at the selected boundaries (bound_overlap.h). If few boundaries are
 * selected, it adds the nodes with the largest shortage of memory. MP_NOMEM. */
mp_status mp_bound_select_tree(mp_bound_chain *c, const mp_bound_selection *selection, int64_t *ticks, mp_error *err);
void mp_bound_selection_clear(mp_bound_selection *selection);
