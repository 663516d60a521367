/* module_schedule.h - the order of steps of a network in which some modules are wrapped in torch.utils.checkpoint.
 *
 * Forward and backward run in list order. A wrapped module keeps its inputs and the outputs that nodes outside read. Its inner
 * storages are freed. When backward first reads an inner storage of a module call, the whole call is recomputed, up to the
 * last operator whose result backward reads. Backward then reads the recomputed storages. Random operators draw the same
 * numbers again. Modules inside a wrapped module are not wrapped themselves. */
#pragma once

#include "memplan/timeline.h"
#include "planner/segments/module_tree.h"

/* `chosen[module]`: the module is wrapped; chosen modules must not be nested. `kept[node]`: the node's outputs are kept and
 * the node never reruns, like under a policy of selective checkpointing; NULL: none. On MP_OK *steps holds *n steps; release
 * it with mp_free. MP_NOT_APPLICABLE: the graph has no backward phase. MP_NOMEM. O(steps + reads). */
mp_status mp_module_schedule(const mp_modules *modules, const bool *chosen, const bool *kept, mp_step **steps, size_t *n,
                             mp_error *err);

/* Finds the wrapped modules that produce exactly these steps, and sets chosen[0 .. modules->n). *is_one is false if no set of
 * modules does. Steps without recomputation yield the empty set. MP_NOMEM. O(steps + calls * operators). */
mp_status mp_module_schedule_read(const mp_modules *modules, const mp_step *steps, size_t n, bool *chosen, bool *is_one,
                                  mp_error *err);
