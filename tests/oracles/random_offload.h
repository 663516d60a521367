/* random_offload.h - adds copies to a training graph, and randomly to an order of its steps. */
#pragma once

#include "memplan/plan.h"
#include "memplan/target.h"

/* Adds copies to the host for all eligible storages of a training graph, of any size, and returns their number. */
int offload_all(mp_graph *graph);

/* Moves all optimizer state of a training graph, of any size, to the host over this link. No other storage may be copied.
 * Returns the number of moved states. */
size_t offload_states(mp_graph *graph, const mp_link *link);

/* Returns a checked plan with offsets: the given steps, which have no copies, with copies of some storages that are produced
 * once. Each is copied out at a random later time, and most are copied back before backward reads them. Copies are issued until
 * a later step, or in order. Release with mp_plan_free. bytes[0] and bytes[1] are the bytes copied out and back. */
mp_plan *random_offload(const mp_graph *graph, uint64_t seed, const mp_step *steps, size_t n, int64_t bytes[2]);
