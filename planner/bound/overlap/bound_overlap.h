/* bound_overlap.h - overlapping intervals between boundaries, bounded together. For the bound's stages.
 *
 * Three things are shared: the time of a recomputation, by all intervals that contain it; the live set at a boundary, by all
 * intervals that begin there; and the same set by those that end there, which must provide it. With Lagrange multipliers on all
 * three the intervals become independent, each a minimum cut, and any multipliers give a bound. A linear programme finds good
 * ones.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"
#include "planner/math/linear.h"

/* What a search has decided about a storage at a boundary: live, not live, or still open. */
enum { MP_BOUND_OPEN, MP_BOUND_LIVE, MP_BOUND_NOT_LIVE };

typedef struct mp_bound_pair {
    int from, to; /* indices of boundaries; `to` may be the number of boundaries: the end of the step */
} mp_bound_pair;

typedef struct mp_bound_overlap {
    mp_pool *pool; /* owns all arrays except pairs and the multipliers */
    mp_bound_interval *x;
    const mp_bound_options *options;
    int *nodes; /* the nodes of the boundaries, each preceding the next */
    int n;
    size_t n_nodes, n_storages;
    int n_pairs;
    size_t pairs_capacity;
    mp_bound_pair *pairs;
    int64_t *free_bytes;     /* per boundary: free memory */
    int64_t *bytes;          /* per boundary and storage: its bytes if live; 0: it is available anyway; -1: irrelevant here */
    int64_t *ticks;          /* per boundary and node: ticks of a run between it and the next boundary */
    bool *needed;            /* per pair and storage, for all pairs of boundaries: true if some node of the interval reads it */
    unsigned char *decision; /* per boundary and storage: MP_BOUND_OPEN (at first), MP_BOUND_LIVE or MP_BOUND_NOT_LIVE */
    /* multipliers, scaled ticks, per pair and storage or node */
    int64_t *live, *reward, *run;
    int64_t *earned; /* per boundary, scaled ticks: the price of its free memory; set by mp_bound_overlap_value */
    struct mp_bound_item *items;
} mp_bound_overlap;

/* Starts with no pairs. Copies the boundaries. On any status released with mp_bound_overlap_clear before x. MP_INFEASIBLE
 * (no message): even what one node needs does not fit. MP_NOMEM. O(boundaries^2 * graph). */
mp_status mp_bound_overlap_init(mp_bound_overlap *o, mp_bound_interval *x, const int *nodes, int n,
                                const mp_bound_options *options, mp_error *err);
void mp_bound_overlap_clear(mp_bound_overlap *o);
/* Adds an interval, unless it is there already. MP_NOMEM. */
mp_status mp_bound_overlap_add(mp_bound_overlap *o, mp_bound_pair pair, mp_error *err);
/* Allocates the multipliers of all pairs added so far, and sets them to zero. MP_NOMEM. */
mp_status mp_bound_overlap_reserve(mp_bound_overlap *o, mp_error *err);

/* Returns the index in `needed` of the pair's first storage. */
size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair);

/* Sets the share of a node's runs (o->run) in each interval between neighbouring boundaries to the whole run less the shares
 * of the other intervals over it; it may be negative. All intervals between neighbours must be among the pairs. */
void mp_bound_overlap_share_out(mp_bound_overlap *o, size_t node);

/* Returns a lower bound at the present multipliers and decisions: scaled ticks beyond first runs after nodes[0]; each node
 * must precede the next. May be negative; INT64_MAX: no plan agrees with the decisions. One cut for each pair. */
int64_t mp_bound_overlap_value(mp_bound_overlap *o);

/* ---- the linear programme over overlapping intervals, whose rows' multipliers make the bound ---- */

typedef struct mp_bound_relax mp_bound_relax;

void mp_bound_relax_free(mp_bound_relax *r);
MP_OWNER(mp_bound_relax_free, mp_bound_relax)
/* Solves the programme with about most_work work (linear.h) and sets the multipliers of o, which must be allocated for all
 * pairs. *solved is false if there is no answer; the multipliers then stay. MP_NOMEM. */
mp_status mp_bound_relax_solve(mp_bound_relax *r, int64_t most_work, bool *solved, mp_error *err);
/* Replaces *r (NULL: none yet) by the programme over the present boundaries and pairs, allocates their multipliers, and
 * solves it; subtracts its work from *work_left. Boundaries and pairs must not change until *r is released. On any status *r
 * is released with mp_bound_relax_free (NULL is fine). MP_NOMEM. O(pairs * graph), and the work. */
mp_status mp_bound_relax_renew(mp_bound_overlap *o, mp_bound_relax **r, int64_t *work_left, bool *solved, mp_error *err);
/* Adds to o, for the next programme, the pairs that the last solution violates most, until there are `most`. MP_NOMEM.
 * O(boundaries^2 * graph). */
mp_status mp_bound_relax_add_pairs(const mp_bound_relax *r, int most, mp_error *err);
/* Return the programme itself; and its column that says whether a storage is live at a boundary, negative: none. */
mp_linear *mp_bound_relax_linear(mp_bound_relax *r);
int mp_bound_relax_live(const mp_bound_relax *r, int boundary, int storage);
/* Returns roughly the largest number of rows that one pair adds. O(graph). */
int64_t mp_bound_relax_rows(const mp_precedence *order);

/* ---- branch and bound on what is live at boundaries, over that programme ---- */

/* Raises *ticks, a bound on recomputation after nodes[0]; each node must precede the next. Once every storage is decided at
 * each boundary, no labelling is fractional; so with enough work the bound is the best that these boundaries can prove.
 * `work`: iterations * rows of linear programmes. MP_INFEASIBLE (no message): no plan fits. MP_NOMEM. Branch and bound, best
 * first (Land and Doig 1960), on the storage for which both branches promise the most (reliability branching: Achterberg,
 * Koch and Martin 2005). */
mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err);
