/* bound_overlap.h - bounds overlapping intervals between boundaries jointly. Internal to the bound.
 *
 * Intervals share three things:
 * - the ticks of a recomputation: shared by all intervals that cover it
 * - the live set at a boundary: shared by all intervals that begin there
 * - the same live set: all intervals that end there must provide it
 *
 * Lagrange multipliers on all three make the intervals independent. Each interval is then a minimum cut, and any multipliers
 * give a valid bound. A linear programme finds good multipliers.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/bound/interval/bound_interval.h"
#include "planner/math/linear.h"

/* The decision of a search about a storage at a boundary: live, not live, or still open. */
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
    int64_t *bytes;          /* per boundary and storage: bytes if live there; -1: not in the problem of this boundary */
    int64_t *ticks;          /* per boundary and node: ticks of a run between it and the next boundary */
    bool *needed;            /* per pair and storage, for all pairs of boundaries: some node of the interval reads it */
    unsigned char *decision; /* per boundary and storage: MP_BOUND_OPEN (at first), MP_BOUND_LIVE or MP_BOUND_NOT_LIVE */
    /* multipliers, scaled ticks, per pair and storage or node */
    int64_t *live, *reward, *run;
    int64_t *earned; /* per boundary, scaled ticks: price of its free memory; set by mp_bound_overlap_value */
    struct mp_bound_item *items;
} mp_bound_overlap;

/* Starts without pairs. Copies the boundaries. Release with mp_bound_overlap_clear on any status, before x. MP_INFEASIBLE (no
 * message): the needs of a single node do not fit. MP_NOMEM. O(boundaries^2 * graph). */
mp_status mp_bound_overlap_init(mp_bound_overlap *o, mp_bound_interval *x, const int *nodes, int n,
                                const mp_bound_options *options, mp_error *err);
void mp_bound_overlap_clear(mp_bound_overlap *o);
/* Adds an interval, unless it was added before. MP_NOMEM. */
mp_status mp_bound_overlap_add(mp_bound_overlap *o, mp_bound_pair pair, mp_error *err);
/* Allocates the multipliers of all pairs added so far, and sets them to zero. MP_NOMEM. */
mp_status mp_bound_overlap_reserve(mp_bound_overlap *o, mp_error *err);

/* Returns the index in `needed` of the pair's first storage. */
size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair);

/* Sets the shares of a node's runs (o->run) in the intervals between neighbouring boundaries: the whole run minus the shares of
 * the other intervals that cover it. A share may be negative. All intervals between neighbours must be among the pairs. */
void mp_bound_overlap_share_out(mp_bound_overlap *o, size_t node);

/* Returns a lower bound at the current multipliers and decisions: scaled ticks after nodes[0], first runs excluded. Each node
 * must precede the next. The value may be negative; INT64_MAX: no plan agrees with the decisions. One cut per pair. */
int64_t mp_bound_overlap_value(mp_bound_overlap *o);

/* ---- the linear programme over overlapping intervals; its dual values are the multipliers ---- */

typedef struct mp_bound_relax mp_bound_relax;

void mp_bound_relax_free(mp_bound_relax *r);
MP_OWNER(mp_bound_relax_free, mp_bound_relax)
/* Solves the programme with about most_work work (linear.h) and sets the multipliers of o. They must be allocated for all
 * pairs. Without a solution *solved is false and the multipliers do not change. MP_NOMEM. */
mp_status mp_bound_relax_solve(mp_bound_relax *r, int64_t most_work, bool *solved, mp_error *err);
/* Replaces *r (NULL: none yet) by the programme over the current boundaries and pairs. Allocates the multipliers and solves the
 * programme. Subtracts its work from *work_left. Boundaries and pairs must not change until *r is released. Release *r with
 * mp_bound_relax_free (NULL is allowed) on any status. MP_NOMEM. O(pairs * graph) plus the work. */
mp_status mp_bound_relax_renew(mp_bound_overlap *o, mp_bound_relax **r, int64_t *work_left, bool *solved, mp_error *err);
/* Adds to o, for the next programme, the pairs that the last solution violates most, up to `most` pairs. MP_NOMEM.
 * O(boundaries^2 * graph). */
mp_status mp_bound_relax_add_pairs(const mp_bound_relax *r, int most, mp_error *err);
/* The first returns the programme. The second returns the column for "storage is live at boundary"; negative: none. */
mp_linear *mp_bound_relax_linear(mp_bound_relax *r);
int mp_bound_relax_live(const mp_bound_relax *r, int boundary, int storage);
/* Returns an estimate of the most rows that one pair adds. O(graph). */
int64_t mp_bound_relax_rows(const mp_precedence *order);

/* ---- branch and bound over the live storages at boundaries ---- */

/* Raises *ticks, a bound on recomputation after nodes[0]. Each node must precede the next. Once every storage is decided at
 * each boundary, no labelling is fractional. With enough work the bound is therefore the best that these boundaries can prove.
 * `work`: iterations * rows of linear programmes. MP_INFEASIBLE (no message): no plan fits. MP_NOMEM.
 *
 * Best-first branch and bound (Land and Doig 1960). It branches on the storage for which both branches promise the most
 * (reliability branching: Achterberg, Koch and Martin 2005).
 */
mp_status mp_bound_tree(mp_bound_interval *x, const int *nodes, int n, const mp_bound_options *options, int64_t work,
                        int64_t *ticks, mp_error *err);
