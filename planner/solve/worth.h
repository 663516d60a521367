/* worth.h - what more memory or a faster link would be worth to a plan with copies, and how much of another tier a budget
 * needs. */
#pragma once

#include "memplan/search.h"

/* Ticks that a step would take less. They are differences of plans: between what the same short search finds from the plan at
 * the limits as they are, and at changed ones. */
typedef struct mp_worth {
    int64_t device_ticks;             /* with a GiB more on the device */
    int64_t tier_ticks[MP_MAX_TIERS]; /* with a GiB more in the tier; 0 where it has no budget */
    int64_t link_ticks;               /* where each copy takes half as long */
} mp_worth;

/* Computes them for a plan that the request was answered with. All are 0, without a search, if no plan takes less than this
 * one. MP_NOMEM. As a few short searches (MP_WORTH_FEWER); deterministic, unless the request's progress ends them. */
mp_status mp_worth_of(const mp_request *request, const mp_plan *plan, mp_worth *out, mp_error *err);

/* Finds a budget of a tier with which a plan fits the request's other budgets, which none did with the tier's own: the smallest
 * that a few searches (MP_ENOUGH_ROUNDS) find, and more than `least_bytes`. *bytes 0: also with no limit there none was found,
 * or there is none. With a start in the request they begin there, and but for the first
 * only refine it. As mp_solve. */
mp_status mp_tier_enough(const mp_request *request, int tier, int64_t least_bytes, bool with_arena, int64_t *bytes,
                         mp_error *err);
