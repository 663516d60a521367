/* trials.h - choices for a search (choices.h), each made into a plan that the timeline judges. */
#pragma once

#include "estimator/graph/liveness.h"
#include "memplan/search.h"
#include "planner/offload/choices.h"

/* A storage that may be copied or computed again. */
typedef struct mp_trial_candidate {
    int storage;
    double rank; /* for rules: those of a high rank are looked at first */
} mp_trial_candidate;

typedef struct mp_trials {
    mp_search *search;
    const mp_graph *graph;
    mp_choices choices;
    int64_t ticks, over; /* of the choices taken: the sum over all steps of the bytes over the budget; INT64_MAX: no plan */
    int64_t n_tries;
    size_t n_candidates;
    mp_trial_candidate *candidates;
} mp_trials;

/* Makes the plan of the present choices, and judges it. MP_NOMEM. One offer. */
mp_status mp_trials_judge(mp_trials *trials, int64_t *ticks, int64_t *over, mp_error *err);

/* Unless keep-all fits: finds the candidates, that is what the loss or backward reads of forward, lets `choose` choose, and
 * offers the plan. Fails as these do, or with MP_NOMEM. */
mp_status mp_trials_run(mp_search *search, mp_status (*choose)(mp_trials *trials, mp_error *err), mp_error *err);

static inline bool mp_trials_may_rerun(const mp_trials *trials, int s)
{
    return mp_storage_is_recomputable(trials->graph, s);
}
