/* trials.h - evaluates choices for a search. For each storage the choice is to keep, offload or recompute it (choices.h).
 * Builds the plan of the choices and judges it with the timeline. */
#pragma once

#include "estimator/graph/liveness.h"
#include "memplan/search.h"
#include "planner/offload/choices.h"

/* A storage about which a rule decides: it may be offloaded or recomputed. */
typedef struct mp_trial_candidate {
    int storage;
    double rank; /* set by a rule: candidates with a higher rank are tried first */
} mp_trial_candidate;

typedef struct mp_trials {
    mp_search *search;
    const mp_graph *graph;
    mp_choices choices;
    /* for the choices kept so far. ticks: ticks of the plan. over: its bytes over the budget, summed over all steps; INT64_MAX:
     * no plan */
    int64_t ticks, over;
    int64_t peak_bytes; /* peak of keep-all */
    int64_t n_tries;
    size_t n_candidates;
    mp_trial_candidate *candidates;
} mp_trials;

/* Builds the plan of the present choices. Returns its ticks, and its bytes over the budget summed over all steps. MP_NOMEM.
 * Takes as long as one offer. */
mp_status mp_trials_judge(mp_trials *trials, int64_t *ticks, int64_t *over, mp_error *err);

/* Offers the plan of the present choices to the search. Fails as mp_search_offer does. Takes as long as one offer. */
mp_status mp_trials_offer(mp_trials *trials, mp_error *err);

/* Runs a rule. If keep-all fits the budget, does nothing. Otherwise lists the candidates: forward storages that the loss or
 * backward reads. Then calls `choose` and offers the plan of the chosen choices. Fails as `choose` or the offer fails, or with
 * MP_NOMEM. */
mp_status mp_trials_run(mp_search *search, mp_status (*choose)(mp_trials *trials, mp_error *err), mp_error *err);

static inline bool mp_trials_may_rerun(const mp_trials *trials, int s)
{
    return mp_storage_is_recomputable(trials->graph, s);
}
