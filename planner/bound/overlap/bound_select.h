/* bound_select.h - chooses the boundaries for jointly bounded intervals, and runs branch and bound over the best ones. Internal
 * to the bound. */
#pragma once

#include "planner/bound/interval/bound_chain.h"

enum { MP_BOUND_MOST_SPLITS = 4 };

/* Splits some intervals between these nodes, and bounds all intervals coupled (bound_couple.h). Each split is the best of
 * several that are tried with few rounds. `nodes` must have space for MP_BOUND_MOST_SPLITS more. On entry *ticks is the
 * uncoupled bound; on return, the best bound found. MP_NOMEM. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err);

/* The best boundaries of overlapping intervals so far, passed from stage to stage. Zero it first. */
typedef struct mp_bound_selection {
    int *nodes, n;
    int64_t value; /* bound with these boundaries, in scaled ticks */
    bool tried;    /* a programme with more than one boundary was solved */
    bool thorough; /* set by the caller: branch and bound follows */
    /* of the current pass: */
    int64_t rows, rows_per_pair; /* most rows of a programme; estimated rows per interval */
    int64_t work_left;           /* of the linear programmes, in their unit (linear.h) */
    int place;                   /* next index in the sequence that fills the candidates evenly */
    bool is_done;                /* nothing ended mp_bound_select early */
    bool *looked_at;             /* per candidate: it has been tried */
} mp_bound_selection;

/* Raises *ticks by the bound of overlapping intervals (bound_overlap.h): first with these nodes and others, then with the
 * boundaries of the selection and others. MP_NOMEM. */
mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, mp_bound_selection *selection, int64_t *ticks,
                          mp_error *err);
/* True if branch and bound may raise the bound `ticks`. Two conditions: memory is short at several boundaries or programmes are
 * small; and the selection's bound is close to `ticks`. */
bool mp_bound_select_is_promising(mp_bound_chain *c, const mp_bound_selection *selection, int64_t ticks);
/* Raises *ticks by branch and bound over the storages live at the selected boundaries (bound_overlap.h). If these are few, adds
 * the nodes with the largest shortage. MP_NOMEM. */
mp_status mp_bound_select_tree(mp_bound_chain *c, const mp_bound_selection *selection, int64_t *ticks, mp_error *err);
void mp_bound_selection_clear(mp_bound_selection *selection);
