/* sweep.h - the trade-off curve: what each searcher makes of each of several budgets, and what is proved about each.
 *
 * A searcher that is monotone in the budget (search.h) searches once; its point for a budget is the fastest schedule
 * within that budget that it tried. The others search for each budget, from the best plan that is known for it. So on
 * every curve a larger budget never costs more.
 *
 *     const mp_sweep_request request = {.graph = graph};              // nine budgets, all searchers that apply
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
    bool feasible; /* false: no plan was found, and the members below are unset */
    int64_t peak_bytes, ticks;
    size_t n_checkpoints, n_recomputed; /* n_recomputed: steps beyond a node's first run, copies back not counted */
} mp_sweep_point;

/* A lower bound: no plan within the budget takes less. */
typedef struct mp_sweep_bound {
    int64_t budget_bytes, ticks;
    bool infeasible; /* proved: no plan fits; ticks is then unset */
} mp_sweep_bound;

typedef struct mp_sweep_curve {
    const char *solver; /* the searcher's name; of a graph that copies, but no state, where no searchers were named, that of one
                         * of three curves: "recompute only", "offload only", "both" */
    int64_t smallest_bytes; /* the lowest peak that it found; -1: it found nothing */
    size_t n;
    mp_sweep_point *points; /* by ascending budget */
} mp_sweep_curve;

/* Evenly spread checkpoints: how many, and what they make. */
typedef struct mp_spread_point {
    size_t n_checkpoints; /* activations kept from one segment to a later one */
    int64_t peak_bytes, ticks;
} mp_spread_point;

/* Called before each search (`search` NULL) and during it; this is search k of about n. Return false to stop with the
 * results so far. */
typedef bool (*mp_sweep_progress)(size_t k, size_t n, const mp_progress *search, void *data);

typedef struct mp_sweep_request {
    const mp_graph *graph;
    mp_problem *problem;    /* as in mp_request */
    const int64_t *budgets; /* NULL: evenly spaced, from the smallest budget that some searcher meets to the peak of keep-all */
    size_t n_budgets;       /* with budgets NULL: how many; 0: MP_SWEEP_BUDGETS */
    int64_t tier_bytes[MP_MAX_TIERS]; /* as in mp_request */
    const char *const *solvers;
    size_t n_solvers; /* 0: all that apply, except those that only combine others or keep everything; of a graph with copies
                       * three curves, by auto without copies, by copy-only and by auto, the last the lowest of all */
    uint64_t seed;
    int64_t moves;
    mp_effort effort;
    bool keep_order;            /* as in mp_request */
    mp_sweep_progress progress; /* may be NULL */
    void *progress_data;
} mp_sweep_request;

enum { MP_SWEEP_BUDGETS = 9, MP_SWEEP_SPREAD = 40 };

typedef struct mp_sweep {
    int64_t floor_bytes, static_bytes, keep_all_bytes, keep_all_ticks;
    double tick_seconds;
    size_t n_curves;
    mp_sweep_curve *curves;
    size_t n_bounds;
    mp_sweep_bound *bounds;       /* by ascending budget */
    mp_bound_orders bound_orders; /* the plans that the bounds hold for */
    size_t n_spread;
    mp_spread_point *spread; /* the study of evenly spread checkpoints */
    bool stopped;
} mp_sweep;

/* Computes the curves; every point's plan has passed mp_plan_check. With budgets NULL, each curve begins at the smallest
 * peak of its own searcher. MP_INVALID: no such searcher. MP_NOT_APPLICABLE: a named searcher, or every one, is not for this
 * graph. MP_NOMEM. On MP_OK release with mp_sweep_free. Deterministic. */
mp_status mp_sweep_budgets(const mp_sweep_request *request, mp_sweep *out, mp_error *err);
void mp_sweep_free(mp_sweep *sweep); /* releases its members, not the struct; a zeroed sweep is fine */

/* ---- how many checkpoints? Evenly spread ones, from none to one after every node: with too few, long segments are recomputed
 * at once; with too many, they fill the memory themselves ---- */

/* Tries segment checkpointing with more and more segment ends, spread over the forward list at places where few bytes
 * are live. Points come in ascending order of n_checkpoints, each number once, at most `most` of them (>= 2); the first
 * is keep-all. On MP_OK *points is released with mp_free. As many schedules are made and judged as points come out, and
 * some more. MP_NOT_APPLICABLE: no forward or no backward phase, or a graph with copies. MP_NOMEM. */
mp_status mp_spread(const mp_graph *graph, size_t most, mp_spread_point **points, size_t *n, mp_error *err);
