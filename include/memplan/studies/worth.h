/* worth.h - for graphs that copy to other tiers: the memory that a tier needs, and the worth of more memory or a faster link.
 *
 *     // given: const mp_request *request; const mp_answer *answer; mp_error *err
 *     mp_tier_study study;
 *     MP_CHECK(mp_tier_study_of(request, answer, true, true, &study, err));
 *     printf("no plan has less than %lld bytes in tier 1\n", (long long)study.floor_bytes[1]);
 */
#pragma once

#include "memplan/solver.h"

/* Ticks of a training step that one change of the limits would save. Each value is the difference of two short searches that
 * start from the same plan: one with the present limits, one with the changed limit. */
typedef struct mp_worth {
    int64_t device_ticks;             /* ticks saved if the device had one GiB more */
    int64_t tier_ticks[MP_MAX_TIERS]; /* ticks saved if the tier had one GiB more; 0 if the tier has no budget */
    int64_t link_ticks;               /* ticks saved if each copy took half as long */
} mp_worth;

/* Estimates the savings for a plan that answers the request. If it is proved that the plan is the fastest, all savings are 0
 * and no search runs. MP_NOMEM. Takes as long as a few short searches (MP_WORTH_FEWER). Deterministic, unless the progress
 * function ends them. */
mp_status mp_worth_of(const mp_request *request, const mp_plan *plan, mp_worth *out, mp_error *err);

/* For a request that has no plan because the budget of `tier` is too small: finds a larger budget for this tier with which a
 * plan exists. The other budgets of the request are not changed. *bytes exceeds least_bytes and is the smallest sufficient
 * budget that a few searches find (MP_ENOUGH_ROUNDS). *bytes 0: no plan was found, even without a limit on the tier. If the
 * request has a start plan, the searches begin there, and all except the first only refine it. Errors as mp_solve. */
mp_status mp_tier_enough(const mp_request *request, int tier, int64_t least_bytes, bool with_arena, int64_t *bytes,
                         mp_error *err);

typedef struct mp_tier_study {
    /* per tier other than the device: lower bound on the peak bytes of any plan in it, static bytes included */
    int64_t floor_bytes[MP_MAX_TIERS];
    /* per tier, if the answer has no plan: a budget in bytes with which a plan exists, from mp_tier_enough; 0: none is known */
    int64_t enough_bytes[MP_MAX_TIERS];
    bool has_worth; /* true: `worth` has been computed */
    mp_worth worth;
} mp_tier_study;

/* Studies the tiers of a request that was answered. The floors are always computed. The other results need `searches`. `worth`
 * is computed for an answer with a plan, if the request has a budget and the graph copies no optimizer state. `enough_bytes` is
 * computed for an answer without a plan, if the device's budget is not below its floor, per tier with a budget. with_arena as
 * in mp_tier_enough. Errors as mp_solve. */
mp_status mp_tier_study_of(const mp_request *request, const mp_answer *answer, bool with_arena, bool searches,
                           mp_tier_study *out, mp_error *err);
/* Returns the first tier whose budget is below study->floor_bytes, so that no plan within the device's budget fits; 0: there is
 * none. */
int mp_tier_study_too_small(const mp_tier_study *study, const mp_graph *graph, const int64_t *tier_bytes);
