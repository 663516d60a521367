/* copies.h - makes copies run parallel to compute: chooses for each copy its position and the step that waits for it. */
#pragma once

#include "memplan/search.h"

/* Issues the copies and collectives of a plan within the request's budgets. First all copies are moved at once, if memory
 * permits. Each copy begins earlier, and compute waits for it later, by the time that the copy takes. Then the copies are moved
 * one after the other. Each gets the waiting step (`until`) or the earlier position with which the plan takes the least time.
 * This repeats until no move shortens the plan. The set of steps does not change. Writes plan->n_steps steps to `steps`.
 * *is_faster: the steps take less time than the plan. Deterministic. MP_NOMEM. Each attempt builds a timeline: three for moving
 * all copies, then at most 2 * MP_COPY_TRIALS per copy and round, and at most MP_COPY_WORK steps in all. */
mp_status mp_copies_issue(const mp_request *request, const mp_plan *plan, mp_step *steps, bool *is_faster, mp_error *err);
