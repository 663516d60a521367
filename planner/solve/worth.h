/* worth.h - how much faster a plan with copies would be with more memory or a faster link, and how large a tier a budget
 * requires. */
#pragma once

#include "memplan/search.h"

/* Ticks saved per step. Each value compares two short searches that start from the same plan: with the current limits, and with
 * one limit changed. */
typedef struct mp_worth {
    int64_t device_ticks;             /* with one GiB more on the device */
    int64_t tier_ticks[MP_MAX_TIERS]; /* with one GiB more in the tier; 0 if it has no budget */
    int64_t link_ticks;               /* if each copy took half as long */
} mp_worth;

/* Computes the savings for a plan that answers the request. All are 0, without a search, if the plan is proved to be fastest.
 * MP_NOMEM. As a few short searches (MP_WORTH_FEWER). Deterministic, unless the progress function ends them. */
mp_status mp_worth_of(const mp_request *request, const mp_plan *plan, mp_worth *out, mp_error *err);

/* Finds a budget of a tier with which a plan fits the other budgets of the request. It is for requests that have no plan with
 * the tier's own budget. The result exceeds least_bytes and is the smallest that a few searches find (MP_ENOUGH_ROUNDS). *bytes
 * 0: no plan was found, even without a limit on the tier. If the request has a start plan, the searches begin there, and all
 * except the first only refine it. As mp_solve. */
mp_status mp_tier_enough(const mp_request *request, int tier, int64_t least_bytes, bool with_arena, int64_t *bytes,
                         mp_error *err);
