/* worth.h - estimates two things. How much faster would a plan with copies be with more memory or a faster link? How much
 * memory of another tier does a device budget require? */
#pragma once

#include "memplan/search.h"

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
