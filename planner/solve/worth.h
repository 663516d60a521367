/* worth.h - estimates how much faster a plan with copies would be with more memory or a faster link, and how much memory
 * another tier needs for a device budget. */
#pragma once

#include "memplan/search.h"

/* Ticks that a training step saves if one limit is changed. Each value compares two short searches that start from the same
 * plan: with the current limits, and with the changed limit. */
typedef struct mp_worth {
    int64_t device_ticks;             /* with one GiB more on the device */
    int64_t tier_ticks[MP_MAX_TIERS]; /* with one GiB more in the tier; 0 if it has no budget */
    int64_t link_ticks;               /* if each copy took half of its time */
} mp_worth;

/* Estimates the savings for a plan that answers the request. If the plan is proved to be the fastest, all savings are 0 and
 * nothing is searched. MP_NOMEM. As a few short searches (MP_WORTH_FEWER). Deterministic, unless the progress function ends
 * them. */
mp_status mp_worth_of(const mp_request *request, const mp_plan *plan, mp_worth *out, mp_error *err);

/* For a request without a plan within its budget of `tier`: finds a larger budget for this tier with which a plan exists. The
 * other budgets of the request hold. *bytes exceeds least_bytes and is the smallest budget that a few searches find
 * (MP_ENOUGH_ROUNDS). *bytes 0: no plan was found, even without a limit on the tier. If the request has a start plan, the
 * searches begin there, and all except the first only refine it. As mp_solve. */
mp_status mp_tier_enough(const mp_request *request, int tier, int64_t least_bytes, bool with_arena, int64_t *bytes,
                         mp_error *err);
