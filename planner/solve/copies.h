/* copies.h - copies issued beside compute: where in a plan each begins, and which step waits for it; and what plans with copies
 * take at least. */
#pragma once

#include "memplan/bound.h"
#include "memplan/search.h"

/* Issues a plan's copies within the request's budgets: one after the other gets the `until`, or the earlier position, that
 * makes the plan take the least, until none gains anything. What runs stays the same. Writes the plan's n_steps steps, and
 * whether they take less than its own. Deterministic. MP_NOMEM. Each trial is a timeline; a copy has at most 2 *
 * MP_COPY_TRIALS of them in a round, and all have MP_COPY_WORK steps. */
mp_status mp_copies_issue(const mp_request *request, const mp_plan *plan, mp_step *steps, bool *is_faster, mp_error *err);

/* Proves how many ticks every plan within the budgets takes at least, if none takes less than `ticks`: those of a plan that is
 * known. tier_bytes as in mp_request. out->ticks -1: nothing. MP_NOMEM. As mp_bound_within of the graph without its copies. */
mp_status mp_copies_bound(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, int64_t ticks, mp_bound *out,
                          mp_error *err);
