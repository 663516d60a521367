/* check.h - the checker judges a plan: it replays the steps by the rules of the training graph, sharing no code with
 * the timeline, and compares what it finds with the claims of the plan: completeness, data flow, order of sums, place
 * of the updates, waits for the second stream, recompute flags, frees, static bytes, peak, seconds, budget, baseline,
 * checkpoints, offsets. Its floor and lower bound are claims about all plans; checked is only that this plan does not
 * contradict them: `memplan check` proves the floor anew (floor.h), with --prove-bound the bound, too. What says
 * nothing about the steps is not verified: solver, seed, options, the graph's name, the list of modules.
 */
#pragma once

#include "memplan/plan.h"

/* MP_OK: the plan holds. MP_REFUTED: it does not; the message is the first fault, naming step and node or storage. MP_INVALID:
 * made for another graph. MP_NOMEM. O(list lengths + places log places), and moving short arrays. */
mp_status mp_plan_check(const mp_graph *graph, const mp_plan *plan, mp_error *err);
