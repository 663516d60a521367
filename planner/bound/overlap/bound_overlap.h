/* bound_overlap.h - internal to the bound: a joint bound of intervals that overlap. An interval begins at one boundary and ends
 * at another.
 *
 * Overlapping intervals are connected by three constraints:
 * - a recomputation is in all intervals that cover it, but its ticks count once
 * - all intervals that begin at a boundary have the same live set there
 * - in all intervals that end at a boundary, this live set must be available
 *
 * The constraints are relaxed with Lagrange multipliers, so that the intervals become independent. Each interval is then a
 * minimum cut, and any multipliers yield a valid bound. A linear programme finds good multipliers. */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"
#include "planner/math/linear.h"

/* The decision about a storage at a boundary in branch and bound: not decided yet, live, or not live. */
enum { MP_BOUND_OPEN, MP_BOUND_LIVE, MP_BOUND_NOT_LIVE };

typedef struct mp_bound_pair {
    /* from, to: indices of the boundaries at which an interval begins and ends. If `to` is the number of boundaries, the
     * interval ends with the step */
    int from, to;
} mp_bound_pair;

typedef struct mp_bound_overlap {
    mp_pool *pool; /* owns all arrays except `pairs` and the multipliers */
    mp_bound_interval *x;
    const mp_bound_options *options;
    int *nodes; /* the nodes of the boundaries; each node precedes the next */
    int n;
    size_t n_nodes, n_storages;
    int n_pairs;
    size_t pairs_capacity;
    mp_bound_pair *pairs;
    int64_t *free_bytes; /* per boundary: free memory */
    /* per boundary and storage: bytes of the storage if it is live at the boundary; -1: the storage has no vertex in the
     * network of the minimum cut */
    int64_t *bytes;
    int64_t *ticks; /* per boundary and node: ticks of a recomputation of the node between this boundary and the next */
    /* per pair of boundaries and storage: some node of the interval reads the storage; also set for pairs that are not in
     * `pairs` */
    bool *needed;
    /* per boundary and storage: the decision, one of MP_BOUND_OPEN (at first), MP_BOUND_LIVE and MP_BOUND_NOT_LIVE */
    unsigned char *decision;
    /* multipliers in scaled ticks: `live` and `reward` for each pair and storage, `run` for each pair and node */
    int64_t *live, *reward, *run;
    int64_t *earned; /* per boundary: value of the free memory there in scaled ticks; set by mp_bound_overlap_value */
    struct mp_bound_item *items;
} mp_bound_overlap;

/* Prepares the boundaries, without intervals. Copies `nodes`. Release with mp_bound_overlap_clear on any status, before x.
 * MP_INFEASIBLE (no message): a single node needs more than the budget. MP_NOMEM. O(b^2 g) for b boundaries and a graph of size
 * g. */
mp_status mp_bound_overlap_init(mp_bound_overlap *o, mp_bound_interval *x, const int *nodes, int n,
                                const mp_bound_options *options, mp_error *err);
void mp_bound_overlap_clear(mp_bound_overlap *o);
/* Adds the interval between the two boundaries of a pair, unless it was added before. MP_NOMEM. */
mp_status mp_bound_overlap_add(mp_bound_overlap *o, mp_bound_pair pair, mp_error *err);
/* Allocates the multipliers of all pairs added up to now, and sets them to zero. MP_NOMEM. */
mp_status mp_bound_overlap_reserve(mp_bound_overlap *o, mp_error *err);

/* Returns the index in `needed` of the element for storage 0 and the interval between this pair of boundaries. */
size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair);

/* Distributes the ticks of a run of the node over the intervals that contain the run (o->run). Sets the share of each interval
 * between neighbouring boundaries: the node's ticks minus the shares of all longer intervals that contain it. The share may be
 * negative. `pairs` must contain all intervals between neighbouring boundaries. */
void mp_bound_overlap_share_out(mp_bound_overlap *o, size_t node);

/* Returns a lower bound on the recomputation after nodes[0], at the present multipliers and decisions; in scaled ticks, first
 * runs not counted. Each node must precede the next. The value may be negative. INT64_MAX: no plan agrees with the decisions.
 * One minimum cut per pair of boundaries. */
int64_t mp_bound_overlap_value(mp_bound_overlap *o);

/* ---- the linear programme over overlapping intervals, whose dual values are the multipliers ---- */

typedef struct mp_bound_relax mp_bound_relax;

void mp_bound_relax_free(mp_bound_relax *r);
MP_OWNER(mp_bound_relax_free, mp_bound_relax)
/* Solves the programme within a limit of about most_work units of work (linear.h) and sets the multipliers of o, which must be
 * allocated for all pairs. If the programme is not solved, *solved is false and the multipliers do not change. MP_NOMEM. */
mp_status mp_bound_relax_solve(mp_bound_relax *r, int64_t most_work, bool *solved, mp_error *err);
/* Replaces *r (NULL: none yet) by the linear programme of the present boundaries and pairs. Allocates the multipliers and
 * solves the programme. Subtracts the work from *work_left. Boundaries and pairs must not change until *r is released. Release
 * *r with mp_bound_relax_free (NULL is allowed) on any status. MP_NOMEM. O(p g) for p pairs and a graph of size g, plus the
 * work. */
mp_status mp_bound_relax_renew(mp_bound_overlap *o, mp_bound_relax **r, int64_t *work_left, bool *solved, mp_error *err);
/* Adds intervals to o for the next linear programme: up to `most` pairs whose constraints the last solution violates most.
 * MP_NOMEM. O(b^2 g) for b boundaries and a graph of size g. */
mp_status mp_bound_relax_add_pairs(const mp_bound_relax *r, int most, mp_error *err);
/* mp_bound_relax_linear returns the linear programme. mp_bound_relax_live returns the column that is 1 if the storage is live
 * at the boundary; negative: there is no such column. */
mp_linear *mp_bound_relax_linear(mp_bound_relax *r);
int mp_bound_relax_live(const mp_bound_relax *r, int boundary, int storage);
/* Returns an upper estimate of the number of rows that one more pair adds to the linear programme. O(graph size). */
int64_t mp_bound_relax_rows(const mp_precedence *order);

/* ---- branch and bound: it decides which storages are live at each boundary ---- */

/* Raises *ticks, a bound on recomputation after nodes[0]. Each node must precede the next. `work`: iterations * rows of linear
 * programmes. If every storage is decided at each boundary, the solution is integral. So with enough work the bound is the best
 * that these boundaries can prove. MP_INFEASIBLE (no message): no plan fits the budget. MP_NOMEM.
 *
 * Best-first branch and bound (Land and Doig 1960). It branches on the storage for which the bounds of both branches are
 * expected to rise most (reliability branching: Achterberg, Koch and Martin 2005). */
mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err);
