/* module_schedule.h - the order of steps of a network in which some modules are wrapped in torch.utils.checkpoint.
 *
 * Forward and backward run in list order. A wrapped module keeps its inputs, and those results that nodes outside read; the
 * rest of its inside is freed. When backward first needs something of one of its calls, that call runs again as a whole, up to
 * the last operator of which backward reads something; backward then reads from this rerun. Random operators draw the same
 * numbers again. Modules within a wrapped one are not wrapped themselves.
 */
#pragma once

#include "memplan/timeline.h"
#include "planner/segments/module_tree.h"

/* `chosen[module]`: true if it is wrapped; no two chosen modules may be nested. `kept[node]`: true if its results stay and
 * it never runs again, as a policy of selective checkpoints has it; NULL: none. On MP_OK *steps holds *n steps and is
 * released with mp_free. MP_NOT_APPLICABLE: the graph has no backward phase. MP_NOMEM. O(steps + reads). */
mp_status mp_module_schedule(const mp_modules *modules, const bool *chosen, const bool *kept, mp_step **steps, size_t *n,
                             mp_error *err);

/* Finds the wrapped modules of which these steps are the schedule, and sets chosen[0 .. modules->n). *is_one is false if
 * there are none such; steps without recomputation give the empty set. MP_NOMEM. O(steps + calls * operators). */
mp_status mp_module_schedule_read(const mp_modules *modules, const mp_step *steps, size_t n, bool *chosen, bool *is_one,
                                  mp_error *err);
