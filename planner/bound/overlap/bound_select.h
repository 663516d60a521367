/* bound_select.h - between which nodes the intervals lie that are bounded together. For bound.c. */
#ifndef PLANNER_BOUND_SELECT_H
#define PLANNER_BOUND_SELECT_H

#include "planner/bound/interval/bound_chain.h"

enum { MP_BOUND_MOST_SPLITS = 4 };

/* The bound of the intervals between these nodes, coupled (bound_couple.h). All splits are tried with few rounds, 4 for each of
 * effort, before: of the nodes there is memory for MP_BOUND_MOST_SPLITS more, *ticks is what the n have without coupling, and
 * comes back as the best that was found. MP_NOMEM. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err);

/* The best boundaries of overlapping intervals so far, zeroed at first: what one stage leaves to the next. */
typedef struct mp_bound_selection {
    int *nodes, n;
    int64_t value; /* scaled ticks that they gave */
    bool tried;    /* with more than one boundary */
    bool thorough; /* set by the caller: what builds on the selection follows (bound_exchange.h) */
    /* of the present stage */
    int64_t rows, rows_per_pair; /* of a programme at most, and of an interval in it */
    int64_t work_left;           /* of linear programmes */
    int place;
    bool is_done;    /* nothing ended mp_bound_select before its end */
    bool *looked_at; /* per candidate */
} mp_bound_selection;

/* The bound of overlapping intervals (bound_overlap.h) between the nodes of a selection, at first these n, and others; *ticks
 * as above. MP_NOMEM. */
mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, mp_bound_selection *selection, int64_t *ticks,
                          mp_error *err);
/* Whether more may come of programmes: memory counts at several boundaries, or a programme is small, and what came of them so
 * far is near `ticks`, the best. */
bool mp_bound_select_is_promising(mp_bound_chain *c, const mp_bound_selection *selection, int64_t ticks);
/* Linear programmes between these nodes, `rounds` of them, each over more intervals; if it is no worse, they become the
 * selection, but for those at which memory counts for nothing. *ticks as above. MP_NOMEM. */
mp_status mp_bound_select_try(mp_bound_chain *c, mp_bound_selection *selection, const int *nodes, int n, int rounds,
                              int64_t *ticks, mp_error *err);
/* Puts a node into a list where it belongs; false: it is in it, or can come on either side of one of its nodes. */
bool mp_bound_insert(const mp_bound_chain *c, int *nodes, int n, int node);
void mp_bound_selection_clear(mp_bound_selection *selection);

#endif
