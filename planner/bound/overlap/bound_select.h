/* bound_select.h - chooses the boundaries between which intervals are bounded together, and runs branch and bound over the
 * best ones. For bound.c. */
#pragma once

#include "planner/bound/interval/bound_chain.h"

enum { MP_BOUND_MOST_SPLITS = 4 };

/* Splits some intervals between these nodes, and bounds all coupled (bound_couple.h). Each split is the best of several that
 * are tried with few rounds. `nodes` has space for MP_BOUND_MOST_SPLITS more. *ticks is the uncoupled bound, and returns the
 * best one found. MP_NOMEM. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err);

/* The best boundaries of overlapping intervals so far, which one stage leaves to the next. Zeroed at first. */
typedef struct mp_bound_selection {
    int *nodes, n;
    int64_t value; /* the bound between these boundaries, in scaled ticks */
    bool tried;    /* true once a programme with more than one boundary was solved */
    bool thorough; /* set by the caller: true if branch and bound follows */
    /* of the present pass */
    int64_t rows, rows_per_pair; /* the most rows of a programme, and how many an interval adds */
    int64_t work_left;           /* of the linear programmes, in their unit */
    int place;                   /* the next boundary's place in the sequence that fills the candidates evenly */
    bool is_done;                /* true if nothing ended mp_bound_select early */
    bool *looked_at;             /* per candidate: it has been tried */
} mp_bound_selection;

/* Raises *ticks by the bound of overlapping intervals (bound_overlap.h): first between these nodes and others, then between
 * the boundaries of the selection and others. MP_NOMEM. */
mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, mp_bound_selection *selection, int64_t *ticks,
                          mp_error *err);
/* True if branch and bound may raise the bound `ticks`: memory is short at several boundaries, or programmes are small, and
 * the selection's bound is near `ticks`. */
bool mp_bound_select_is_promising(mp_bound_chain *c, const mp_bound_selection *selection, int64_t ticks);
/* Raises *ticks by branch and bound on what is live at the selected boundaries (bound_overlap.h); if they are few, further
 * nodes where memory is shortest are added. MP_NOMEM. */
mp_status mp_bound_select_tree(mp_bound_chain *c, const mp_bound_selection *selection, int64_t *ticks, mp_error *err);
void mp_bound_selection_clear(mp_bound_selection *selection);
