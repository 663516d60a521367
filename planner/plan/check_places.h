/* check_places.h - checks the offsets of a plan. For the checker only. */
#pragma once

#include "memplan/plan.h"
#include "planner/plan/check_replay.h"

/* Checks that every instance in a tier, and on the device every workspace, of more than 0 bytes has one of the plan's places
 * there: aligned, of its size and its lifetime. Places may overlap only if an output takes over the memory of an input, at the
 * same offset. *arena_bytes: the highest end. MP_REFUTED. MP_NOMEM. O(places log places + places * live places), the latter by
 * memmove. */
mp_status mp_check_places(const mp_graph *graph, const mp_plan *plan, int tier, const mp_replay *replay, int64_t *arena_bytes,
                          mp_error *err);
