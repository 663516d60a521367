/* bound_branch.h - a tighter bound for one interval: branch and bound on what is live at its start. For bound.c. */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/bound/interval/bound_interval.h"

/* The bound of the interval that x is set to, after at most `most` branchings; all fates are open before and after. MP_NOMEM.
 * Best first (Land and Doig 1960). O(most) solves of the interval. */
mp_status mp_bound_branch(mp_bound_interval *x, int64_t most, const mp_bound_options *options, mp_bound_value *out,
                          mp_error *err);
