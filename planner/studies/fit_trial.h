/* fit_trial.h - the batches that the study of the largest batch has tried, with their plans. */
#pragma once

#include "memplan/studies/fit.h"
#include "planner/studies/fit_needs.h"

/* One batch size that was tried, with its results. */
typedef struct mp_fit_trial {
    int64_t batch, static_bytes;
    /* own_floor_bytes: floor of the graph of graph_at. floor_bytes: the same until has_floor is set; then a floor of all graphs
     * of the batch */
    int64_t floor_bytes, own_floor_bytes;
    bool has_floor; /* true: floor_bytes holds for all settings */
    bool is_chosen; /* true: best_at has chosen the settings, or the request has none */
    /* the graph that best_at returned; NULL: use the graph of graph_at. If a plan fits, the plan is of the graph used */
    mp_graph *chosen;
    mp_fit_measure kept, found; /* memory of keep-all, and of the plan to which peak_bytes refers */
    int64_t baseline_ticks;
    double tick_seconds;
    int n_searches;
    bool searched_anew; /* true: a search did not start from the plan of a batch */
    /* results of the search, in bytes with the arena. peak_bytes: memory of the fastest plan that fits, -1 if no plan fits.
     * smallest_bytes: the same, but if no plan fits, the memory of the smallest plan. ticks: time of the plan */
    int64_t smallest_bytes, peak_bytes, ticks;
    const char *solver; /* the searcher's name */
    mp_step *steps;     /* steps of the plan, or of the smallest plan if no plan fits; NULL: no search was made */
    size_t n_steps;
} mp_fit_trial;

typedef struct mp_fit_study {
    const mp_fit_request *request;
    size_t n_trials, capacity, n_searches;
    mp_fit_trial *trials; /* the batches that were tried, in the order of the trials */
    int64_t batch;        /* the batch size that is being tried */
    int64_t plan_limit;   /* limit of the bytes of plans that recompute; keep-all's limit is memory_bytes */
    bool has_limit;       /* true: plan_limit is known */
    bool stopped;
} mp_fit_study;

/* The search that precedes a result. NOT_SEARCHED: none. SEARCHED: a search from the plan of the nearest batch, unless a result
 * is known. SEARCHED_AGAIN: another search, from the plan of the nearest batch that takes at most the allowed time.
 * SEARCHED_ANEW: another search, from no plan. */
typedef enum mp_fit_depth { MP_FIT_NOT_SEARCHED, MP_FIT_SEARCHED, MP_FIT_SEARCHED_AGAIN, MP_FIT_SEARCHED_ANEW } mp_fit_depth;

/* Returns the trial of a batch; NULL: it was not tried. O(trials). */
mp_fit_trial *mp_fit_known(const mp_fit_study *x, int64_t batch);
/* Returns the searcher's name from the table of searchers. This string stays valid; a plan frees its own string. */
const char *mp_fit_solver_name(const char *name);
/* Returns the extra time of the plan of a trial, as a fraction of keep-all's time. */
double mp_fit_overhead_of(const mp_fit_trial *t);
/* True if the plan of a trial fits and takes at most the allowed time. */
bool mp_fit_is_quick_enough(const mp_fit_study *x, const mp_fit_trial *t);
/* True if a search can start from the plan of another batch. Only `auto` refines plans. */
bool mp_fit_starts_from_plans(const mp_fit_study *x);
/* Returns the results for a batch in *out, after a search if the floor is within the memory. If the graph of graph_at does not
 * suffice, best_at chooses another one. *out is NULL if the user has stopped the study; it is valid until the next call. Errors
 * as graph_at, best_at and mp_solve_with_arena. */
mp_status mp_fit_try(mp_fit_study *x, int64_t batch, mp_fit_depth how, const mp_fit_trial **out, mp_error *err);
void mp_fit_study_clear(mp_fit_study *x);
