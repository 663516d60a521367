/* check_places.h - checks the places of a plan (items with offsets). Internal to the checker. */
#pragma once

#include "memplan/plan.h"
#include "planner/plan/check_replay.h"

/* Checks the places of a plan in a tier. Each instance of more than 0 bytes must have a place that is aligned and has the
 * instance's size and lifetime. On the device, each workspace of more than 0 bytes must have a place as well. Two places may
 * overlap only if an output takes over the memory of an input, at the same offset. Sets *arena_bytes to the end of the highest
 * place. MP_REFUTED. MP_NOMEM. O(n log n + n m) for n places of which at most m are live at one step; the second term is
 * memmove. */
mp_status mp_check_places(const mp_graph *graph, const mp_plan *plan, int tier, const mp_replay *replay, int64_t *arena_bytes,
                          mp_error *err);
