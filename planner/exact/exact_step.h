/* exact_step.h - a step leads from a state to the states after it: whether it may run, and what can be live after it. */
#pragma once

#include "planner/exact/exact_stage.h"

/* Whether the alternative can run now. A rerun has to produce something useful that is not live. */
bool mp_exact_can_run(const mp_exact_graph *x, const mp_exact_stage *stage, mp_exact_set live,
                      const mp_exact_alternative *alternative);

/* Gets what is live after a step; false ends the enumeration. */
typedef bool (*mp_exact_visit)(void *data, mp_exact_set live);

/* All that can be live after a step that can run, `next` being the stage after it: everything if that fits, else every largest
 * set that fits with the step. False: the visitor ended it. O(2^storages live) in the worst case, few in practice. */
bool mp_exact_step(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                   const mp_exact_alternative *alternative, mp_exact_visit visit, void *data);

/* Whether some best plan from here, if there is one, begins with the first run of the node in this alternative, and evicts
 * nothing for it; then *live_after. */
bool mp_exact_is_safe(const mp_exact_graph *x, const mp_exact_stage *stage, const mp_exact_stage *next, mp_exact_set live,
                      const mp_exact_alternative *alternative, mp_exact_set *live_after);
