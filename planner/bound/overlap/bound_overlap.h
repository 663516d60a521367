/* bound_overlap.h - overlapping intervals between boundaries, bounded together. For the bound's stages.
 *
 * Three things are shared: the time of a recomputation, among the intervals that contain it; the set that is live at a
 * boundary, by all intervals that begin there; and by those that end there, which have to provide it. With multipliers on all
 * three the intervals become independent, each a minimum cut, and any multipliers give a bound. A linear programme finds good
 * ones.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"
#include "planner/math/linear.h"

/* The decision of a search about a storage at a boundary: is it live there? */
enum { MP_BOUND_OPEN, MP_BOUND_LIVE, MP_BOUND_NOT_LIVE };

typedef struct mp_bound_pair {
    int from, to; /* boundaries; to: the number of boundaries stands for the end */
} mp_bound_pair;

typedef struct mp_bound_overlap {
    mp_pool *pool; /* of all arrays but pairs and the multipliers */
    mp_bound_interval *x;
    const mp_bound_options *options;
    int *nodes; /* the boundaries, each before the next */
    int n;
    size_t n_nodes, n_storages;
    int n_pairs;
    size_t pairs_capacity;
    mp_bound_pair *pairs;
    int64_t *free_bytes; /* per boundary */
    int64_t *bytes; /* per boundary and storage: of a live storage; 0: nothing, it is available anyway; -1: irrelevant here */
    int64_t *ticks; /* per boundary and node: of a run between it and the next */
    bool *needed;   /* per pair and storage: some node of the interval reads it; a table for all pairs of boundaries */
    unsigned char *decision; /* per boundary and storage: MP_BOUND_OPEN .., all open at first */
    /* multipliers, scaled ticks, per pair and storage or node */
    int64_t *live, *reward, *run;
    int64_t *earned; /* per boundary, scaled ticks: what its free memory is worth; set by mp_bound_overlap_value */
    struct mp_bound_item *items;
} mp_bound_overlap;

/* Without pairs. The boundaries are copied. On any status released with mp_bound_overlap_clear before x. MP_INFEASIBLE (no
 * message): not even what a node needs fits. MP_NOMEM. O(boundaries^2 * graph). */
mp_status mp_bound_overlap_init(mp_bound_overlap *o, mp_bound_interval *x, const int *nodes, int n,
                                const mp_bound_options *options, mp_error *err);
void mp_bound_overlap_clear(mp_bound_overlap *o);
/* Adds an interval, unless it is among them. MP_NOMEM. */
mp_status mp_bound_overlap_add(mp_bound_overlap *o, mp_bound_pair pair, mp_error *err);
/* Allocates the multipliers of the present pairs, all zero. MP_NOMEM. */
mp_status mp_bound_overlap_reserve(mp_bound_overlap *o, mp_error *err);

/* The index in `needed` of the pair's first storage. */
size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair);

/* Makes the shares of a node's runs, o->run, together the whole run in every stretch between boundaries: the interval between
 * neighbours gets what the others leave, which may be less than nothing. All of those have to be among the pairs. */
void mp_bound_overlap_share_out(mp_bound_overlap *o, size_t node);

/* At least so many scaled ticks are taken beyond first runs after nodes[0], each node before the next, at the present
 * multipliers, if what is settled holds; INT64_MAX: it can't. May be negative. A cut for each pair. */
int64_t mp_bound_overlap_value(mp_bound_overlap *o);

/* ---- the linear programme over overlapping intervals, whose rows' multipliers make the bound ---- */

typedef struct mp_bound_relax mp_bound_relax;

void mp_bound_relax_free(mp_bound_relax *r);
MP_OWNER(mp_bound_relax_free, mp_bound_relax)
/* Solves it with about so much work (linear.h) and sets the multipliers of o, for whose pairs there is memory; *solved false:
 * there is no answer, and they are left. MP_NOMEM. */
mp_status mp_bound_relax_solve(mp_bound_relax *r, int64_t most_work, bool *solved, mp_error *err);
/* Replaces *r (NULL: none) by the programme over the boundaries and pairs there are now, which stay as they are until it is
 * released, with memory for their multipliers, and solves it; its work is taken from *work_left. On any status *r is released
 * with mp_bound_relax_free (NULL is fine). MP_NOMEM. O(pairs * graph), and the work. */
mp_status mp_bound_relax_renew(mp_bound_overlap *o, mp_bound_relax **r, int64_t *work_left, bool *solved, mp_error *err);
/* Adds the pairs to o in which the last solution falls short the most, until there are `most`, for the next programme.
 * MP_NOMEM. O(boundaries^2 * graph). */
mp_status mp_bound_relax_add_pairs(const mp_bound_relax *r, int most, mp_error *err);
/* The programme itself, and the column that says whether a storage is live at a boundary, negative: none. */
mp_linear *mp_bound_relax_linear(mp_bound_relax *r);
int mp_bound_relax_live(const mp_bound_relax *r, int boundary, int storage);
/* Returns about the most rows that a pair adds. O(graph). */
int64_t mp_bound_relax_rows(const mp_precedence *order);

/* ---- branch and bound on what is live at boundaries, over that programme ---- */

/* Raises *ticks, a bound on recomputation after nodes[0], each node before the next. When every storage is wholly live or
 * wholly not at each boundary, no labelling is fractional, so that with enough work the bound is the best that these boundaries
 * can prove. `work`: of linear programmes, iterations * rows. MP_INFEASIBLE (no message): no plan fits. MP_NOMEM. Best first
 * (Land and Doig 1960), on the storage for which both branches promise the most (reliability branching: Achterberg, Koch and
 * Martin 2005). */
mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err);
