/* copies.h - overlaps copies with compute: chooses the position of each copy and the step that waits for it. */
#pragma once

#include "memplan/search.h"

/* Issues a plan's copies and collectives within the request's budgets. First all copies are moved at once: each begins ahead of
 * its use, and is waited for later, by the time that its channel needs, if memory permits. Then, one after the other, each gets
 * the `until` or the earlier position with the shortest plan, until no move helps. The set of steps does not change. Writes
 * plan->n_steps steps to `steps`. *is_faster: the steps take less time than the plan. Deterministic. MP_NOMEM. Each attempt
 * builds a timeline: three for all at once, then at most 2 * MP_COPY_TRIALS per copy and round, and at most MP_COPY_WORK steps
 * in all. */
mp_status mp_copies_issue(const mp_request *request, const mp_plan *plan, mp_step *steps, bool *is_faster, mp_error *err);
