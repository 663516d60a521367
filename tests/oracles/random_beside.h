/* random_beside.h - updates of an order put on the second stream at random. */
#pragma once

#include "memplan/plan.h"

/* Issues some of the updates of an order that obeys all rules on the second stream, and lets the compute stream wait for each
 * somewhere before the first step that it must not run beside. Returns how many run beside some step. */
int random_beside(const mp_graph *graph, uint64_t seed, int percent, mp_step *steps, size_t n);
