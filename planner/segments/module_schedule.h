/* module_schedule.h - the order of steps of a network in which some modules are wrapped in torch.utils.checkpoint.
 *
 * Forward and backward run in list order. Of a wrapped module, only the inputs and the outputs that other modules read are
 * kept. All inner storages are freed after the module has run forward. When backward first reads an inner storage of a call of
 * the module, the call is recomputed, up to the last operator whose result backward reads. Backward then reads the recomputed
 * storages. A recomputed random operator draws the same numbers as in its first run. Modules inside a wrapped module are not
 * wrapped themselves. */
#pragma once

#include "memplan/timeline.h"
#include "planner/segments/module_tree.h"

/* Builds the order of steps. `chosen[module]`: the module is wrapped; two chosen modules must not be nested. `kept[node]`: the
 * node's outputs are kept and the node never runs again, as under a policy of selective checkpointing; NULL: no such nodes. On
 * MP_OK *steps holds *n steps; release it with mp_free. MP_NOT_APPLICABLE: the graph has no backward phase. MP_NOMEM. O(steps +
 * reads). */
mp_status mp_module_schedule(const mp_modules *modules, const bool *chosen, const bool *kept, mp_step **steps, size_t *n,
                             mp_error *err);

/* Finds the set of modules that yields exactly the steps steps[0..n) if its modules are wrapped in torch.utils.checkpoint.
 * Marks the set in chosen[0 .. modules->n). *is_one is false if no set of modules yields them. Steps without recomputation
 * yield the empty set. MP_NOMEM. O(steps + calls * operators). */
mp_status mp_module_schedule_read(const mp_modules *modules, const mp_step *steps, size_t n, bool *chosen, bool *is_one,
                                  mp_error *err);
