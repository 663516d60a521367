/* module_schedule.h - the order of steps of a network in which some modules are wrapped in torch.utils.checkpoint.
 *
 * Forward and backward run in the order of the list. A wrapped module keeps what it was given, and what others read of its
 * results; the rest of its inside is gone. When backward first needs something of a call of it, that call runs again as a
 * whole, up to the last operator of which backward reads something, and is used up from there. Random operators draw the same
 * numbers again. Modules within a wrapped one are not wrapped themselves.
 */
#pragma once

#include "memplan/timeline.h"
#include "planner/segments/module_tree.h"

/* `chosen[module]`: it is wrapped; no two of them related. `kept[node]`: its results stay, as a policy of selective checkpoints
 * has it, and it never runs again; NULL: all run again. On MP_OK *steps holds *n steps and is released with mp_free.
 * MP_NOT_APPLICABLE: the graph has no backward phase. MP_NOMEM. O(steps + reads). */
mp_status mp_module_schedule(const mp_modules *modules, const bool *chosen, const bool *kept, mp_step **steps, size_t *n,
                             mp_error *err);

/* The modules whose schedule these steps are: chosen[0 .. modules->n) is set. *is_one false: the schedule of none; a schedule
 * in which nothing runs again is that of the empty set. MP_NOMEM. O(steps + calls * operators). */
mp_status mp_module_schedule_read(const mp_modules *modules, const mp_step *steps, size_t n, bool *chosen, bool *is_one,
                                  mp_error *err);
