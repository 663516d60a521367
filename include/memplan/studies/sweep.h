/* sweep.h - the trade-off curve between memory and time: the best plan of each searcher and the bound, for several budgets.
 *
 * A searcher that is monotone in the budget (search.h) searches once. Of all schedules that this searcher tried, the fastest
 * one within a budget gives the point for this budget. Other searchers run once per budget and start from the best plan known
 * for that budget. So on every curve a larger budget never gives a slower plan.
 *
 *     // given: const mp_graph *graph; mp_error *err
 *     const mp_sweep_request request = {.graph = graph};                // nine budgets, all searchers that apply
 *     mp_sweep sweep;
 *     MP_CHECK(mp_sweep_budgets(&request, &sweep, err));
 *     MP_CHECK(mp_curve_picture(&sweep, "resnet50", "curve.svg", err)); // curve_picture.h
 *     mp_sweep_free(&sweep);
 */
#pragma once

#include "memplan/solver.h"

/* The best plan that a searcher found for a budget. */
typedef struct mp_sweep_point {
    int64_t budget_bytes;
    bool feasible; /* false: no plan was found, and the following members are unset */
    int64_t peak_bytes, ticks;
    size_t n_checkpoints, n_recomputed; /* n_recomputed: number of steps that run a node again, without copies back */
} mp_sweep_point;

/* A lower bound for one budget: no plan within the budget takes fewer ticks. */
typedef struct mp_sweep_bound {
    int64_t budget_bytes, ticks;
    bool infeasible; /* true: it is proved that no plan fits the budget; ticks is then unset */
} mp_sweep_bound;

typedef struct mp_sweep_curve {
    const char *solver;     /* name of the searcher. If the graph copies activations but no state and the request names no
                               searchers, the curves are "recompute only", "offload only" and "both" */
    int64_t smallest_bytes; /* the lowest peak that this searcher found, in bytes; -1: it found no plan */
    size_t n;
    mp_sweep_point *points; /* results of the searcher: one point per budget, sorted by ascending budget */
} mp_sweep_curve;

/* A result of segment checkpointing with evenly spread checkpoints. */
typedef struct mp_spread_point {
    size_t n_checkpoints; /* number of activations that are kept from one segment to a later segment */
    int64_t peak_bytes, ticks;
} mp_spread_point;

/* Progress function: called before each search (`search` NULL) and repeatedly during it, for search k of about n. Return
 * false to stop with the results so far. */
typedef bool (*mp_sweep_progress)(size_t k, size_t n, const mp_progress *search, void *data);

typedef struct mp_sweep_request {
    const mp_graph *graph;
    mp_problem *problem; /* cached results of the graph (problem.h), as in mp_request.problem; NULL: the sweep computes them */
    const int64_t *budgets; /* the budgets in bytes; NULL: budgets evenly spaced from the smallest budget for which a searcher
                               finds a plan to the peak of keep-all */
    size_t n_budgets;       /* length of `budgets`, or number of evenly spaced budgets; 0: MP_SWEEP_BUDGETS */
    int64_t tier_bytes[MP_MAX_TIERS]; /* budgets of the tiers other than the device, as mp_request.tier_bytes; 0: none */
    const char *const *solvers;
    size_t n_solvers; /* length of `solvers`. 0: all applicable searchers, except those that only combine others or keep
                         everything. For a graph with copies, 0 gives three curves: auto without copies, copies only, and auto.
                         Each point of the third curve is the best of all three */
    uint64_t seed;
    int64_t moves;
    mp_effort effort;
    bool keep_order;            /* true: first runs stay in list order, as mp_request.keep_order */
    mp_sweep_progress progress; /* function that receives the progress of the searches; NULL: none */
    void *progress_data;
} mp_sweep_request;

enum { MP_SWEEP_BUDGETS = 9, MP_SWEEP_SPREAD = 40 };

typedef struct mp_sweep {
    int64_t floor_bytes, static_bytes, keep_all_bytes, keep_all_ticks;
    double tick_seconds;
    size_t n_curves;
    mp_sweep_curve *curves;
    size_t n_bounds;
    mp_sweep_bound *bounds;       /* lower bounds: one per budget, sorted by ascending budget */
    mp_bound_orders bound_orders; /* the set of plans for which the lower bounds are proved */
    size_t n_spread;
    mp_spread_point *spread; /* results for evenly spread checkpoints */
    bool stopped;
} mp_sweep;

/* Computes a curve per searcher and the bounds. Every point's plan has passed mp_plan_check. If `budgets` is NULL, each
 * curve begins at the smallest peak of its own searcher. On MP_OK release *out with mp_sweep_free. MP_INVALID: unknown
 * searcher. MP_NOT_APPLICABLE: a named searcher, or every searcher, does not apply to this graph. MP_NOMEM. Deterministic. */
mp_status mp_sweep_budgets(const mp_sweep_request *request, mp_sweep *out, mp_error *err);
void mp_sweep_free(mp_sweep *sweep); /* releases the members of a sweep, not the struct; a zeroed struct is allowed */

/* ---- points of a sweep. All functions are O(points * bounds) at most ---- */

/* True if no searcher found a faster plan within the point's budget. */
bool mp_sweep_is_cheapest(const mp_sweep *sweep, const mp_sweep_point *point);
/* Returns the bound for a budget; NULL: there is none. */
const mp_sweep_bound *mp_sweep_bound_at(const mp_sweep *sweep, int64_t budget_bytes);
/* Returns the best point for the smallest budget above `bytes`: the fastest plan, of equally fast plans the one with the
 * smallest peak. *solver is its searcher. If no searcher found a plan for this budget, the point is not feasible. NULL: there
 * is no larger budget. */
const mp_sweep_point *mp_sweep_best_above(const mp_sweep *sweep, int64_t bytes, const char **solver);
/* Returns the fastest plan for the smallest budget with a plan; NULL: no searcher found a plan for any budget. */
const mp_sweep_point *mp_sweep_least(const mp_sweep *sweep);
/* True if it is proved that no plan fits any of the budgets. */
bool mp_sweep_is_refuted(const mp_sweep *sweep);

/* ---- segment checkpointing with different numbers of checkpoints. With few checkpoints, long segments are recomputed as a
 * whole; with many, the checkpoints themselves fill the memory ---- */

/* Tries segment checkpointing with increasing numbers of segments. Segment ends are spread over the forward nodes, at
 * positions with few live bytes. *points receives at most `most` (>= 2) points, sorted by n_checkpoints, without duplicates.
 * The first point is keep-all. On MP_OK release *points with mp_free. Cost: somewhat more schedules are judged than points
 * returned. MP_NOT_APPLICABLE: the graph has no forward or no backward phase, or has copies. MP_NOMEM. */
mp_status mp_spread(const mp_graph *graph, size_t most, mp_spread_point **points, size_t *n, mp_error *err);
