/* check.h - the checker: verifies a plan by replaying its steps.
 *
 * The checker follows the rules of the training graph and shares no code with the timeline. It verifies that the plan is
 * complete, and that data flow, the order of sums, the position of updates and the waits for the second stream are valid. It
 * compares its results with these claims: recompute flags, frees, static bytes, peak, seconds, budget, baseline,
 * checkpoints, offsets. The floor and the lower bound are claims about all plans; the checker only verifies that this plan
 * does not contradict them. `memplan check` recomputes the floor (floor.h) and, with --prove-bound, the bound. Claims that
 * say nothing about the steps are not verified: solver, seed, options, the graph's name, the list of modules. */
#pragma once

#include "memplan/plan.h"

/* MP_OK: all claims hold. MP_REFUTED: a claim is false; the message describes the first fault and names its step and node or
 * storage. MP_INVALID: the plan belongs to another graph. MP_NOMEM. O(l + n log n) for l reads, writes and adds of all steps,
 * and n places (mp_plan.n_places). */
mp_status mp_plan_check(const mp_graph *graph, const mp_plan *plan, mp_error *err);
