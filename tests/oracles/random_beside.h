/* random_beside.h - random updates of an order on the second stream. */
#pragma once

#include "memplan/plan.h"

/* Issues some updates of a valid order on the second stream. The compute stream waits for each at a random step, at the latest
 * before the first conflicting one. Returns the number of updates that overlap a step. */
int random_beside(const mp_graph *graph, uint64_t seed, int percent, mp_step *steps, size_t n);
