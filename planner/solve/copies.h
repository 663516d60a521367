/* copies.h - copies issued beside compute: where in a plan each begins, and which step waits for it. */
#pragma once

#include "memplan/search.h"

/* Issues a plan's copies and collectives within the request's budgets: all at once, each as far ahead of what needs it, and
 * waited for as long after it, as its channel asks for and the memory has room; then one after the other gets the `until`, or
 * the earlier position, that makes the plan take the least, until none gains anything. What runs stays the same. Writes the
 * plan's n_steps steps, and whether they take less than its own. Deterministic. MP_NOMEM. Each trial is a timeline: three for
 * all at once; a copy has at most 2 * MP_COPY_TRIALS of them in a round, and all have MP_COPY_WORK steps. */
mp_status mp_copies_issue(const mp_request *request, const mp_plan *plan, mp_step *steps, bool *is_faster, mp_error *err);
