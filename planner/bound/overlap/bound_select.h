/* bound_select.h - the choice of boundaries between which intervals are bounded together, and the tree over the best of them.
 * For bound.c. */
#pragma once

#include "planner/bound/interval/bound_chain.h"

enum { MP_BOUND_MOST_SPLITS = 4 };

/* The bound of the intervals between these nodes, coupled (bound_couple.h), after splitting some of them: each split is the
 * best of several that are tried with few rounds. `nodes` has space for MP_BOUND_MOST_SPLITS more. *ticks: the bound without
 * coupling; comes back as the best that was found. MP_NOMEM. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err);

/* The best boundaries of overlapping intervals so far, zeroed at first: what one stage leaves to the next. */
typedef struct mp_bound_selection {
    int *nodes, n;
    int64_t value; /* scaled ticks: the bound between them */
    bool tried;    /* a programme with more than one boundary */
    bool thorough; /* set by the caller: the tree follows */
    /* of the present pass */
    int64_t rows, rows_per_pair; /* of a programme at most, and of an interval in it */
    int64_t work_left;           /* of linear programmes */
    int place;                   /* of the next boundary in the sequence that fills the candidates evenly */
    bool is_done;                /* nothing ended mp_bound_select before its end */
    bool *looked_at;             /* per candidate */
} mp_bound_selection;

/* Raises *ticks by the bound of overlapping intervals (bound_overlap.h), between these nodes and others, then between those of
 * the selection so far and others. MP_NOMEM. */
mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, mp_bound_selection *selection, int64_t *ticks,
                          mp_error *err);
/* True if the tree may raise the bound `ticks`: memory is short at several boundaries, or programmes are small,
 * and their bound is near it. */
bool mp_bound_select_is_promising(mp_bound_chain *c, const mp_bound_selection *selection, int64_t ticks);
/* Branches on what is live at its boundaries (bound_overlap.h); where these are few, at further nodes where memory is shortest
 * too. Raises *ticks. MP_NOMEM. */
mp_status mp_bound_select_tree(mp_bound_chain *c, const mp_bound_selection *selection, int64_t *ticks, mp_error *err);
void mp_bound_selection_clear(mp_bound_selection *selection);
