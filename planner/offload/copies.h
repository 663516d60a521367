/* copies.h - makes copies run parallel to compute: chooses for each copy its position and the step that waits for it. */
#pragma once

#include "memplan/bound.h"
#include "memplan/search.h"

/* Issues the copies and collectives of a plan within the request's budgets. First all copies are moved at once, if memory
 * permits. Each copy begins earlier, and compute waits for it later, by the time that the copy takes. Then the copies are moved
 * one after the other. Each gets the waiting step (`until`) or the earlier position with which the plan takes the least time.
 * This repeats until no move shortens the plan. The set of steps does not change. Writes plan->n_steps steps to `steps`.
 * *is_faster: the steps take less time than the plan. Deterministic. MP_NOMEM. Each attempt builds a timeline: three for moving
 * all copies, then at most 2 * MP_COPY_TRIALS per copy and round, and at most MP_COPY_WORK steps in all. */
mp_status mp_copies_issue(const mp_request *request, const mp_plan *plan, mp_step *steps, bool *is_faster, mp_error *err);

/* ---- copies_bound.c ---- */

/* Lower bounds for plans with copies to other tiers: on their ticks, and on the bytes that they need in each tier. */

/* Proves a lower bound on the ticks of all plans within the budgets. `ticks` is the time of a known plan, so no higher bound is
 * tried. tier_bytes as in mp_request, effort as in mp_bound_options. out->ticks -1: nothing is proved. MP_NOMEM. Takes as long
 * as mp_bound_within for the graph without its copies. */
mp_status mp_copies_bound(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, int64_t ticks, int effort,
                          mp_bound *out, mp_error *err);

/* Computes, for each tier other than the device, a lower bound on the peak bytes in this tier of every plan within the given
 * budgets. Static bytes are included. MP_NOMEM. Takes as long as mp_floor for the graph without its copies. */
mp_status mp_tier_floors(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes,
                         int64_t floor_bytes[MP_MAX_TIERS], mp_error *err);
