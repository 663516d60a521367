/* copies.h - copies issued beside compute: where in a plan each begins, and which step waits for it. */
#pragma once

#include "memplan/search.h"

/* Improves a plan within the request's budgets by issuing its copies: one after the other gets the `until`, or the earlier
 * position, that makes the plan take the least, until none gains anything. What runs stays the same. *plan is replaced if it
 * gets faster, and has then no offsets. Deterministic. MP_NOMEM. Each trial is a timeline; a copy has at most
 * MP_COPY_TRIALS of them in a round. */
mp_status mp_copies_issue(const mp_request *request, mp_plan **plan, mp_error *err);
